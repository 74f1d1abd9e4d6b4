from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t

from dovetail.abi cimport dovetail_body
from dovetail_neon.workload.packing cimport acc_packing
from dovetail_neon.geometry.window cimport acc_window
from dovetail_neon.recurrent.parameters cimport acc_quantized_recurrent_kernels


cdef extern from "dovetail_neon/quantized/parameters.h" nogil:
    ctypedef struct acc_requantization:
        const int32_t *bias
        const float *factors
        float low
        float high
        int32_t zero
        int32_t near

    ctypedef struct acc_quantized_convolution:
        int64_t images
        acc_window window
        int64_t groups
        int64_t channels
        int64_t filters
        int64_t in_step
        int64_t out_step
        int64_t pixel_step
        int64_t runs
        int64_t units
        const char *weights
        int64_t blocks
        int64_t panels
        int64_t row_bands
        int64_t column_bands
        acc_requantization result
        int32_t framed
        int32_t outside
        int32_t chunks_first
        int32_t last_lanes
        int32_t polls

    ctypedef struct acc_quantized_matrix:
        int64_t images
        acc_window window
        int64_t groups, channels, filters, blocks
        int64_t pieces
        int64_t step
        int64_t out_step
        int64_t planes
        int64_t plane_height
        int64_t plane_width
        const int64_t *plane_y
        const int64_t *plane_x
        int64_t columns
        int64_t column_stride
        int64_t taps
        const int64_t *tap_offset
        int64_t tile_step
        int64_t image_step
        int64_t grid
        int64_t rows
        int64_t chunks
        const char *weights
        acc_requantization result
        int32_t outside
        int32_t direct
        int32_t last_lanes

    ctypedef struct acc_quantized_matrix_kernels:
        const char *name
        dovetail_body arrange
        dovetail_body multiply
        void (*pack)(
            const int16_t *weights, int64_t filter_step, int64_t tap_step, int64_t channel_step, int64_t filters, int64_t taps,
            int64_t channels, char *packed, acc_packing *packing) noexcept nogil

    ctypedef struct acc_quantized_depthwise:
        int64_t images
        acc_window window
        int64_t step
        int64_t stacks
        int64_t together
        int64_t phases
        int64_t period
        int64_t row_bands
        int64_t column_bands
        int64_t stacked_bytes
        const char *weights
        acc_requantization result
        int32_t outside
        int32_t polls

    enum:
        ACC_TIES_UP
        ACC_TIES_AWAY
        ACC_WIDE
        ACC_NARROW
        ACC_WIDE_REAL
        ACC_NARROW_REAL

    ctypedef struct acc_short_results:
        const double *bias
        const double *factors
        const double *nudges
        const int64_t *sums
        const int32_t *multipliers
        const int32_t *shifts
        int32_t zero
        int32_t low
        int32_t high
        int32_t way

    ctypedef struct acc_short_convolution:
        acc_quantized_convolution convolution
        int64_t plane
        int64_t most
        acc_short_results result

    ctypedef struct acc_short_depthwise:
        acc_quantized_depthwise depthwise
        acc_short_results result

    ctypedef struct acc_quantized_pooling:
        int64_t images
        int64_t channels
        acc_window window
        int64_t step
        const int32_t *counts
        int32_t pad
        int32_t offset
        int32_t polls

    ctypedef struct acc_quantized_second:
        const void *constants
        int64_t period

    ctypedef struct acc_quantized_sum:
        int64_t count
        acc_quantized_second second
        float a
        float b
        int32_t zero_a
        int32_t zero_b
        float low
        float high
        int32_t zero

    ctypedef struct acc_quantized_table:
        uint8_t bytes[256]

    ctypedef struct acc_quantized_softmax:
        int64_t size
        uint32_t terms[256]
        uint32_t powers[256]
        double step
        int32_t fixed
        int32_t reach
        int32_t zero
        int32_t low
        int32_t high
        uint8_t sign

    ctypedef struct acc_fixed_point:
        int32_t multiplier
        int32_t left
        int32_t right

    ctypedef struct acc_quantized_factor:
        int64_t input
        int64_t matrix_step
        int64_t line_step
        int64_t depth_step
        int64_t step
        const int64_t *matrices
        int32_t zero

    ctypedef struct acc_quantized_product:
        int64_t rows, columns, depth
        int64_t pairs
        int64_t panels
        int64_t chunks
        int64_t packed_right
        acc_quantized_factor left, right
        acc_fixed_point scale
        int32_t zero
        int32_t low
        int32_t high
        uint8_t sign

    ctypedef struct acc_quantized_prelu:
        int64_t count
        acc_quantized_second second
        acc_fixed_point above, below
        int32_t zero_x
        int32_t zero_slope
        int32_t zero
        int32_t low
        int32_t high

    ctypedef struct acc_quantized_reduction:
        int64_t images
        int64_t channels
        int64_t pixels
        int64_t step
        int32_t offset
        float factor
        float low
        float high
        int32_t zero

    ctypedef struct acc_quantized_reorder:
        int64_t images
        int64_t channels
        int64_t pixels
        int64_t chunks
        int64_t step
        int32_t channels_last
        int32_t flip

    ctypedef struct acc_quantize:
        float scale
        int32_t zero
        int32_t is_signed
        int32_t away

    ctypedef struct acc_quantized_entry:
        acc_quantized_reorder order
        acc_quantize quantize

    ctypedef void (*acc_pack)(
        const int16_t *weights, int64_t filter_step, int64_t tap_step, int64_t channel_step, int64_t first, int64_t filters,
        int64_t blocks, int64_t taps, int64_t channels, char *packed, acc_packing *packing) noexcept nogil

    ctypedef void (*acc_pack_stored)(
        const int8_t *weights, int64_t filter_step, int64_t tap_step, int64_t channel_step, int64_t first, int64_t filters,
        int64_t blocks, int64_t taps, int64_t channels, char *packed, acc_packing *packing) noexcept nogil

    ctypedef void (*acc_pack_depthwise)(
        const int16_t *weights, int64_t channel_step, int64_t row_step, int64_t column_step, const int64_t *channel_of, int64_t phases,
        int64_t kernel_height, int64_t kernel_width, int64_t together, char *packed) noexcept nogil

    ctypedef struct acc_quantized_kernels:
        const char *name
        int32_t is_signed
        int32_t has_quads
        dovetail_body convolve[2]
        dovetail_body depthwise[2]
        dovetail_body convolve_shorts[2]
        dovetail_body depthwise_shorts
        dovetail_body maximum
        dovetail_body average
        dovetail_body sum
        dovetail_body product
        dovetail_body greater
        dovetail_body lesser
        dovetail_body look_up
        dovetail_body softmax
        dovetail_body prelu
        dovetail_body pack_left
        dovetail_body pack_right
        dovetail_body multiply
        dovetail_body reduce_sum
        dovetail_body reduce_maximum
        dovetail_body reduce_minimum
        dovetail_body to_image
        dovetail_body from_image
        dovetail_body quantize
        dovetail_body quantize_image
        dovetail_body dequantize
        dovetail_body quantize_shorts
        dovetail_body dequantize_shorts
        int32_t most_blocks
        int32_t pixels[5]
        acc_pack pack[2]
        acc_pack_stored pack_stored[2]
        acc_pack_depthwise pack_depthwise[2]
        const acc_quantized_recurrent_kernels *recurrent

    const acc_quantized_kernels *acc_quantized_kernels_of(const char *instruction_set, int32_t dot_products)

    const acc_quantized_matrix_kernels *acc_quantized_matrix_of(const acc_quantized_kernels *kernels)
