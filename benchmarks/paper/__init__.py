"""Experiments of Alvarez-Melis and Jaakkola, Gromov-Wasserstein Alignment of Word Embedding Spaces
(EMNLP 2018), on data that you have: ``python -m benchmarks.paper table1 --data DIR``.
"""
