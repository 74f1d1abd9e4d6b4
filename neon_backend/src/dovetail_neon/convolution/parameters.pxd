from libc.stdint cimport int32_t, int64_t

from dovetail.abi cimport dovetail_body
from dovetail_neon.elementwise.activation cimport acc_activation
from dovetail_neon.workload.packing cimport acc_packing
from dovetail_neon.geometry.window cimport acc_window


cdef extern from "dovetail_neon/convolution/parameters.h" nogil:
    ctypedef struct acc_pixels:
        int64_t image_step
        int64_t group_step
        int64_t block_step
        int64_t pixel_step
        int64_t block

    ctypedef struct acc_convolution:
        int64_t images
        acc_window window
        int64_t groups
        int64_t channels
        int64_t filters
        # `in` is a word of Python's
        acc_pixels source "in"
        acc_pixels target "out"
        const float *weights
        const float *bias
        const float *zeros
        const int64_t *panel_weights
        const int32_t *panel_vector
        int64_t panels
        int64_t chunks
        int32_t chunks_first
        int32_t polls
        int64_t group_weights
        acc_activation activation
        int32_t adds
        int32_t reaches_out
        int32_t rows

    ctypedef struct acc_convolution_kernels:
        dovetail_body run
        int32_t vectors
        int32_t together
        int32_t pixels[9]
        int64_t (*packed)(int64_t vectors, int64_t taps, int64_t channels, int64_t block) noexcept nogil
        void (*pack)(
            const float *weights, int64_t filter_step, int64_t tap_step, int64_t channel_step, int64_t first_filter,
            int64_t filters, int64_t vectors, int64_t taps, int64_t channels, int64_t block, float *packed,
            acc_packing *packing) noexcept nogil

    enum:
        ACC_LANES_OF_ONE_GROUP
        ACC_LANES_OF_TWO_GROUPS
        ACC_LANES_OF_ONE_VECTOR
        ACC_LANES_OF_TWO_VECTORS
        ACC_LANES_OF_THREE_VECTORS

    ctypedef struct acc_grouped:
        acc_convolution convolution
        int64_t most
        const int32_t *spread
        const int64_t *sources
        const int32_t *lanes

    ctypedef struct acc_grouped_kernels:
        dovetail_body run

    ctypedef struct acc_winograd:
        int64_t images
        acc_window window
        int64_t channels
        int64_t filters
        int64_t tile
        int64_t tile_columns
        int64_t image_tiles
        int64_t tiles
        int64_t bands
        int64_t row_step
        int64_t position_step
        int64_t product_step
        int64_t products_at
        const float *weights
        const float *bias
        const int32_t *panel_vector
        int64_t panels
        acc_activation activation
        int32_t adds

    ctypedef struct acc_winograd_kernels:
        dovetail_body banded
        dovetail_body transform
        dovetail_body multiply
        void (*pack)(
            const float *weights, int64_t filter_step, int64_t tap_step, int64_t channel_step, int64_t first_filter,
            int64_t filters, int64_t vectors, int64_t channels, int64_t tile, float *packed,
            acc_packing *packing) noexcept nogil

    ctypedef struct acc_bfloat16_image:
        int64_t image_step
        int64_t group_step
        int64_t block_step
        int64_t pixel_step
        int64_t block
        int64_t element

    ctypedef struct acc_bfloat16:
        int64_t images
        acc_window window
        int64_t groups
        int64_t channels
        int64_t filters
        int64_t blocks
        # `in` is a word of Python's
        acc_bfloat16_image source "in"
        acc_bfloat16_image target "out"
        acc_bfloat16_image added
        int64_t planes
        int64_t plane_height
        int64_t plane_width
        const int64_t *plane_y
        const int64_t *plane_x
        int64_t taps
        const int64_t *tap_offset
        int64_t image_step
        int64_t group_step
        int64_t block_step
        int64_t pixel_step
        int64_t columns
        int64_t grid
        int64_t rows
        const unsigned short *weights
        const float *bias
        int64_t vectors
        int64_t chunks
        acc_activation activation
        int32_t adds
        int32_t direct
        int32_t few
        int32_t channels_last

    ctypedef struct acc_bfloat16_kernels:
        dovetail_body arrange
        dovetail_body arrange_few
        dovetail_body multiply
        void (*pack)(
            const float *weights, int64_t filter_step, int64_t tap_step, int64_t channel_step, int64_t filters, int64_t taps,
            int64_t channels, int32_t runs, unsigned short *packed,
            acc_packing *packing) noexcept nogil
