"""One entropic linear problem: its kernel, its marginals, its scalings."""
