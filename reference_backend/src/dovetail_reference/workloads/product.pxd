"""The tile kernels of `product.h`, what is packed for them, and how much at once."""

from libc.stdint cimport int8_t, int16_t, int64_t, uint8_t, uint32_t, uint64_t

# Floats are packed as double, and so are the words of quantized tensors, less their zero point: it
# holds their sums exactly. Bytes of quantized tensors are packed as uint32, less their zero point.
ctypedef fused packable:
    float
    double
    int8_t
    uint8_t
    int16_t


cdef extern from "product.h" nogil:
    enum:
        TILE_ROWS
        TILE_COLUMNS

    void product_double(int64_t depth, const double *rows, const double *panel, double *sums, int more)
    void product_int32(int64_t depth, const uint32_t *rows, const uint32_t *panel, uint32_t *sums, int more)
    void product_int64(int64_t depth, const uint64_t *rows, const uint64_t *panel, uint64_t *sums, int more)


cdef enum:
    DEPTH_AT_ONCE = 1 << 15     # more is packed, and multiplied, in parts: a run can be stopped between them


cdef inline int64_t panels_at_once(int64_t depth) noexcept nogil:
    """Return how many panels are gathered before the rows are packed once for all of them.

    They take half a megabyte, which stays in a cache.
    """
    cdef int64_t count = (1 << 19) // (8 * TILE_COLUMNS * (depth if depth > 0 else 1))
    return 1 if count < 1 else 8 if count > 8 else count


cdef inline size_t product_workspace(int64_t depth) noexcept nogil:
    """Return the bytes of the rows and panels packed at once.

    They are counted in doubles, also where the elements are smaller.
    """
    cdef int64_t at_once = min(depth, <int64_t>DEPTH_AT_ONCE)
    return sizeof(double) * at_once * (TILE_ROWS + panels_at_once(depth) * TILE_COLUMNS)
