"""Of the files that the tests of the command line read; a quick way to align them."""

N = 60
FEW = "plans of less than 300 words are often wrong, got 60 and 60"
# From one start, as it does not matter here which one wins.
ALIGN = "align", "a.vec", "b.vec", "--quiet", "--init", "profile"
