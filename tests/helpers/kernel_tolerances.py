"""How far a compiled kernel may be from its float64 twin."""

import numpy as np

from gwfast.kernels import _kernels, _rows

# Largest relative and largest absolute error allowed. The exponents of the log domain
# reach 90 here, which float32 knows to 1e-5; sums are off by a few roundings.
TOLERANCES = {
    "exp": (1.3e-7, 1.2e-38),
    "log": (1.3e-7, 0),
    "absorb": (0, 1e-14),
    "logsumexp_rows": (0, 1e-5),
    "logsumexp_cols": (0, 1e-5),
    "gibbs_kernel": (1.5e-5, 1.2e-38),
    "proximal_cost": (2e-7, 2e-7),
    "sinkhorn_passes": (6e-7, 0),
    "sinkhorn_passes-capped": (6e-7, 1e-7),
    "sinkhorn_passes-relaxed": (5e-6, 0),
    "sinkhorn_passes-many": (6e-7, 1e-7),
    "normal_product": (6e-7, 0),
    "rescale_columns": (6e-7, 0),
    "rescale_columns-relaxed": (5e-6, 0),
    "drift": (1e-15, 0),
    "scale_to_plan": (6e-7, 0),
    "marginals": (6e-7, 0),
    "matmul": (5e-7, 0),
    "matmul-transposed": (5e-7, 0),
    "matmul-scaled": (5e-7, 0),
    "matmul-dots": (2e-6, 0),
    "matmul-plus": (5e-7, 0),
    "matmul_few": (5e-7, 0),
    "matmul_few-transposed": (5e-7, 0),
    "gibbs_product": (1.5e-5, 1.2e-38),
    "gram": (1e-6, 0),
    "dot": (5e-7, 0),
    "distance": (5e-7, 0),
    "deviation": (1e-13, 0),
    "entropy": (5e-7, 0),
    "copy_rows-product": (5e-7, 0),
    "copy_rows-gibbs": (1.5e-5, 1.2e-38),
    "topk_rows": (0, 0),
    "sparse_count": (6e-7, 0),
    "sparse_select": (0, 0),
    "sparse_gibbs": (1.5e-5, 1.2e-38),
    "sparse_sinkhorn_passes": (1e-6, 0),
    "sparse_sinkhorn_passes-many": (1e-6, 4e-7),
    "sparse_normal_product": (1e-6, 0),
    "sparse_product": (2e-6, 0),
}


# Of the kernels that take float64: sums of n terms are off by a few roundings of it
# (and BLAS's, in a twin, by more), exponents up to 90 are known to 1e-14.
WIDE_TOLERANCES = {
    "exp": (2.5e-16, 3e-308),
    "log": (2.5e-16, 0),
    "absorb": (4e-16, 1e-16),
    "logsumexp_rows": (2e-15, 2e-15),
    "logsumexp_cols": (2e-15, 2e-15),
    "gibbs_kernel": (4e-14, 3e-308),
    "proximal_cost": (1e-15, 1e-15),
    "sinkhorn_passes": (4e-15, 0),
    "sinkhorn_passes-relaxed": (2e-14, 0),
    "sinkhorn_passes-many": (4e-15, 1e-15),
    "sinkhorn_passes-capped": (4e-15, 1e-15),
    "normal_product": (4e-15, 0),
    "rescale_columns": (1e-15, 0),
    "rescale_columns-relaxed": (2e-14, 0),
    "drift": (1e-15, 0),
    "scale_to_plan": (2e-15, 0),
    "marginals": (2e-15, 0),
    "matmul": (2e-15, 0),
    "matmul-transposed": (2e-15, 0),
    "matmul-scaled": (2e-15, 0),
    "matmul-dots": (4e-15, 0),
    "matmul-plus": (2e-15, 0),
    "matmul_few": (2e-15, 0),
    "matmul_few-transposed": (2e-15, 0),
    "dot": (2e-15, 0),
    "distance": (2e-15, 0),
    "deviation": (1e-13, 0),
    "entropy": (2e-15, 0),
    "topk_rows": (0, 0),
}

# Kernels whose sums run over strips of a row.
SUMMED = {
    "logsumexp_rows", "scale_to_plan", "marginals", "dot", "distance", "entropy",
    "sparse_count", "sparse_sinkhorn_passes", "sparse_sinkhorn_passes-many",
}  # fmt: skip
# Terms of a running sum that tolerances are for, see GWF_STRIP in csrc/row_kernels.inc.
TERMS = 64


def running_terms(dtype=np.float32):
    """Terms that the kernels in use add up one after the other before a sum goes on in
    float64: `TERMS` where the compiler has shared strips of them out over the lanes of
    vectors, else more.
    """
    # Numbers that are lost beside the one, and kept where they are by themselves.
    m, small = 1 << 13, np.finfo(dtype).epsneg / 2
    x = np.full((1, m), small, dtype=dtype)
    x[0, 0] = 1.0
    sums = np.empty(1), np.empty(m)
    _kernels.marginals(x, *sums, _rows.ColumnSums(1, m, dtype))
    return 1 + round((1.0 - sums[0][0]) / small) + m - 1


def rounding_of_sums(dtype=np.float32):
    """What the tolerance of a sum grows by where the compiler has left loops as they
    are: as the bound on the rounding of a running sum, with its terms. It is as it was
    where they are fewer (Clang's, which takes several vectors at once).
    """
    return max(1.0, running_terms(dtype) / TERMS)


def assert_close(case, came, expected, dtype=np.float32):
    wide = dtype is np.float64
    rtol, atol = (WIDE_TOLERANCES if wide else TOLERANCES)[case]
    if case in SUMMED:
        rtol *= rounding_of_sums(dtype)
    for left, right in zip(came, expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=rtol, atol=atol)
