from libc.stdint cimport int32_t, int64_t

from dovetail.abi cimport dovetail_body


cdef extern from "dovetail_neon/movement/parameters.h" nogil:
    enum:
        ACC_MOVED_AXES
        ACC_RUN
        ACC_STRIDED
        ACC_TRANSPOSED
        ACC_TRANSPOSED_FLOATS

    ctypedef struct acc_move:
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

    ctypedef struct acc_moves:
        int64_t count
        const acc_move *moves
        char *fill

    ctypedef struct acc_gather:
        int64_t outer
        int64_t size
        int64_t count
        int64_t total
        int64_t inner
        int64_t chunks
        int32_t wide
        int32_t axis

    ctypedef struct acc_movement_kernels:
        dovetail_body move
        dovetail_body gather
        int64_t (*first_outside)(const acc_gather *self, const void *positions) noexcept nogil

    ctypedef struct acc_reorder:
        int64_t images
        int64_t channels
        int64_t pixels
        int64_t chunks

    ctypedef struct acc_reorder_kernels:
        dovetail_body blocked_of_nchw
        dovetail_body nchw_of_blocked
        dovetail_body blocked_of_nhwc
        dovetail_body nhwc_of_blocked

    ctypedef struct acc_join:
        int64_t images
        int64_t channels
        int64_t pixels
        int64_t parts
        const int64_t *part_channels
        const int64_t *first_channel

    ctypedef struct acc_frame:
        int64_t planes
        int64_t height
        int64_t width
        int64_t element
        int64_t top
        int64_t left
        int64_t bottom
        int64_t right

    ctypedef struct acc_interleave:
        int32_t apart
        int64_t blocks
        int64_t in_height
        int64_t in_width
        int64_t out_height
        int64_t out_width
        int64_t stride_y
        int64_t stride_x
        int64_t first_y
        int64_t first_x

    ctypedef struct acc_images_kernels:
        dovetail_body join
        dovetail_body frame
        dovetail_body interleave
        dovetail_body copy
