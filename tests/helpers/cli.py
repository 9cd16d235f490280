"""Of the files that the tests of the command line read."""

N = 60
