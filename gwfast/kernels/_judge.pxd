cdef extern from "gwfast.h" nogil:
    ctypedef struct gwf_limits:
        pass

cdef int fill(gwf_limits *limits, dict numbers) except -1
