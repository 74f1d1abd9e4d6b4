from libc.stdint cimport int32_t, int64_t

from dovetail.abi cimport dovetail_body


cdef extern from "interface/movement.h" nogil:
    enum:
        NEON_MOVED_AXES
        NEON_RUN
        NEON_STRIDED
        NEON_TRANSPOSED
        NEON_TRANSPOSED_FLOATS

    ctypedef struct neon_move:
        int32_t input
        int32_t output
        int32_t method
        int32_t element
        int32_t rank
        int64_t first_item
        int64_t items
        int64_t *sizes
        int64_t *source_steps
        int64_t *target_steps
        int64_t source_offset
        int64_t target_offset
        int64_t length
        int64_t stripe
        int64_t chunks
        int64_t source_step
        int64_t target_step
        int64_t columns
        int64_t column_step

    ctypedef struct neon_moves:
        int64_t count
        const neon_move *moves
        char *fill

    ctypedef struct neon_gather:
        int64_t outer
        int64_t size
        int64_t count
        int64_t total
        int64_t inner
        int64_t chunks
        int32_t wide
        int32_t axis

    ctypedef struct neon_movement_kernels:
        dovetail_body move
        dovetail_body gather
        int64_t (*first_outside)(const neon_gather *self, const void *positions) noexcept nogil
