from libc.stdint cimport int32_t, int64_t

from dovetail.abi cimport dovetail_body
from dovetail_neon.interface.activation cimport neon_activation
from dovetail_neon.interface.packing cimport neon_packing


cdef extern from "interface/convolution.h" nogil:
    ctypedef struct neon_pixels:
        int64_t image_step
        int64_t division_step
        int64_t block_step
        int64_t pixel_step
        int64_t block

    ctypedef struct neon_convolution:
        int64_t images
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
        int64_t divisions
        int64_t channels
        int64_t filters
        # `in` is a word of Python's
        neon_pixels source "in"
        neon_pixels target "out"
        const float *weights
        const float *bias
        const float *zeros
        const int64_t *group_weights
        const int32_t *group_vector
        int64_t groups
        int64_t chunks
        int32_t chunks_first
        int32_t polls
        int64_t division_weights
        neon_activation activation
        int32_t adds
        int32_t reaches_out
        int32_t rows

    ctypedef struct neon_convolution_kernels:
        dovetail_body run
        int32_t vectors
        int32_t together
        int32_t pixels[9]
        int64_t (*packed)(int64_t vectors, int64_t taps, int64_t channels, int64_t block) noexcept nogil
        void (*pack)(
            const float *weights, int64_t filter_step, int64_t tap_step, int64_t channel_step, int64_t first_filter,
            int64_t filters, int64_t vectors, int64_t taps, int64_t channels, int64_t block, float *packed,
            neon_packing *packing) noexcept nogil
