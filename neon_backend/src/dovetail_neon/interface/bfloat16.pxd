from libc.stdint cimport int32_t, int64_t

from dovetail.abi cimport dovetail_body
from dovetail_neon.interface.activation cimport neon_activation
from dovetail_neon.interface.packing cimport neon_packing


cdef extern from "interface/bfloat16.h" nogil:
    ctypedef struct neon_bfloat16_image:
        int64_t image_step
        int64_t division_step
        int64_t block_step
        int64_t pixel_step
        int64_t block
        int64_t element

    ctypedef struct neon_bfloat16:
        int64_t images
        int64_t in_height
        int64_t in_width
        int64_t out_height
        int64_t out_width
        int64_t stride_y
        int64_t stride_x
        int64_t padding_top
        int64_t padding_left
        int64_t divisions
        int64_t channels
        int64_t filters
        int64_t blocks
        # `in` is a word of Python's
        neon_bfloat16_image source "in"
        neon_bfloat16_image target "out"
        neon_bfloat16_image added
        int64_t planes
        int64_t plane_height
        int64_t plane_width
        const int64_t *plane_y
        const int64_t *plane_x
        int64_t taps
        const int64_t *tap_offset
        int64_t image_step
        int64_t division_step
        int64_t block_step
        int64_t pixel_step
        int64_t columns
        int64_t grid
        int64_t rows
        const unsigned short *weights
        const float *bias
        int64_t vectors
        int64_t chunks
        neon_activation activation
        int32_t adds
        int32_t direct
        int32_t few
        int32_t channels_last

    ctypedef struct neon_bfloat16_windows:
        int64_t images
        int64_t channels
        int64_t blocks
        int64_t in_height
        int64_t in_width
        int64_t out_height
        int64_t out_width
        int64_t kernel_height
        int64_t kernel_width
        int64_t stride_y
        int64_t stride_x
        int64_t dilation_y
        int64_t dilation_x
        int64_t padding_top
        int64_t padding_left
        int64_t chunks
        const float *weights
        const float *bias
        neon_activation activation

    ctypedef struct neon_bfloat16_kernels:
        const char *name
        dovetail_body arrange
        dovetail_body arrange_few
        dovetail_body multiply
        dovetail_body depthwise
        void (*pack)(
            const float *weights, int64_t filter_step, int64_t tap_step, int64_t channel_step, int64_t filters, int64_t taps,
            int64_t channels, int32_t runs, unsigned short *packed,
            neon_packing *packing) noexcept nogil

    const neon_bfloat16_kernels *neon_bfloat16_kernels_of(const char *instruction_set, const char *unit)
