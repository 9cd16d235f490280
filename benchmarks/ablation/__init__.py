"""Whether what is in the engine pays: one list of problems of every class that the
documentation names, for `benchmarks.compare` and all that asks such questions.
"""
