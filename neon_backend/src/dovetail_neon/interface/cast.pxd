from dovetail.abi cimport dovetail_body


cdef extern from "interface/cast.h" nogil:
    enum:
        NEON_CAST_TYPES

    ctypedef struct neon_cast_kernels:
        dovetail_body between[NEON_CAST_TYPES][NEON_CAST_TYPES]
