"""The kernels in csrc, compiled once per instruction set and linked into this module alone."""

from libc.stdint cimport int32_t, int64_t

from dovetail.abi cimport dovetail_body


cdef extern from "interface/kernels.h" nogil:
    ctypedef struct neon_job:
        const void *parameters
        const void *const *inputs
        void *const *outputs
        char *workspace
        char *worker_workspace
        size_t worker_stride

    ctypedef struct neon_phase:
        dovetail_body body
        int64_t range
        int64_t multiple
        int64_t most
        int64_t alone
        int32_t per_worker

    ctypedef struct neon_activation:
        int32_t function
        float a
        float b

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
            int64_t filters, int64_t vectors, int64_t taps, int64_t channels, int64_t block, float *packed) noexcept nogil

    ctypedef struct neon_reorder:
        int64_t images
        int64_t channels
        int64_t pixels
        int64_t chunks

    ctypedef struct neon_reorder_kernels:
        dovetail_body blocked_of_nchw
        dovetail_body nchw_of_blocked
        dovetail_body blocked_of_nhwc
        dovetail_body nhwc_of_blocked

    ctypedef struct neon_windows:
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
        int32_t by_rows
        const float *weights
        const float *bias
        neon_activation activation
        const float *factors

    ctypedef struct neon_windows_kernels:
        dovetail_body depthwise
        dovetail_body maximum
        dovetail_body average
        dovetail_body mean

    ctypedef struct neon_scale:
        int64_t images
        int64_t channels
        int64_t pixels
        int64_t chunks
        neon_activation activation

    ctypedef struct neon_join:
        int64_t images
        int64_t channels
        int64_t pixels
        int64_t parts
        const int64_t *part_channels
        const int64_t *first_channel

    ctypedef struct neon_frame:
        int64_t planes
        int64_t height
        int64_t width
        int64_t element
        int64_t top
        int64_t left
        int64_t bottom
        int64_t right

    ctypedef struct neon_flat:
        neon_activation activation

    ctypedef struct neon_images_kernels:
        dovetail_body scale
        dovetail_body join
        dovetail_body frame
        dovetail_body apply
        dovetail_body copy

    enum:
        NEON_MOST_AXES

    ctypedef struct neon_elementwise:
        int32_t operation
        int32_t axes
        int64_t sizes[8]
        int64_t steps[2][8]
        int64_t row
        int64_t row_step[2]
        int64_t chunks
        neon_activation activation

    ctypedef struct neon_elementwise_kernels:
        dovetail_body binary

    ctypedef struct neon_softmax:
        int64_t outer
        int64_t size
        int64_t inner
        int64_t chunks
        float beta
        int32_t logarithm

    ctypedef struct neon_layer_normalization:
        int64_t size
        float epsilon
        int32_t center
        const float *scale
        const float *offset

    ctypedef struct neon_rows_kernels:
        dovetail_body softmax
        dovetail_body softmax_across
        dovetail_body layer_normalization

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

    ctypedef struct neon_matmul:
        int64_t batches
        int64_t rows
        int64_t columns
        int64_t depth
        int32_t left
        int32_t right
        int32_t left_transposed
        int32_t right_transposed
        int64_t left_step
        int64_t right_step
        const int64_t *left_matrix
        const int64_t *right_matrix
        int64_t groups
        int64_t chunks
        int64_t packed_left
        int64_t packed_right

    ctypedef struct neon_matmul_kernels:
        int32_t vectors
        int32_t rows
        int32_t dot_rows
        int32_t few_rows
        dovetail_body pack_left
        dovetail_body pack_right
        dovetail_body pack_right_transposed
        dovetail_body packed
        dovetail_body direct
        dovetail_body few
        dovetail_body dots

    ctypedef struct neon_attention:
        int64_t batches
        int64_t heads
        int64_t queries
        int64_t keys
        int64_t size
        int64_t value_size
        int64_t blocks
        int64_t block_rows
        int64_t key_groups
        int64_t value_groups
        int64_t packed_values
        int64_t mask_batch_step
        int64_t mask_head_step
        int64_t mask_query_step
        int64_t mask_key_step
        float scale
        int32_t masked

    ctypedef struct neon_attention_kernels:
        dovetail_body pack
        dovetail_body run

    enum:
        NEON_CAST_TYPES

    ctypedef struct neon_cast_kernels:
        dovetail_body between[NEON_CAST_TYPES][NEON_CAST_TYPES]

    ctypedef struct neon_taps:
        const int64_t *first
        const int64_t *position
        const float *weight

    ctypedef struct neon_resize:
        int64_t in_height
        int64_t in_width
        int64_t out_height
        int64_t out_width
        neon_taps rows
        neon_taps columns

    ctypedef struct neon_resize_kernels:
        dovetail_body nearest
        dovetail_body interpolate

    ctypedef struct neon_affine:
        int64_t channels
        int64_t inner
        const float *factor
        const float *offset

    ctypedef struct neon_group_normalization:
        int64_t groups
        int64_t channels
        int64_t inner
        float epsilon
        const float *scale
        const float *offset

    ctypedef struct neon_column_normalization:
        int64_t pixels
        int64_t channels
        float epsilon
        const float *scale
        const float *offset

    ctypedef struct neon_normalization_kernels:
        dovetail_body affine
        dovetail_body groups
        dovetail_body columns

    enum:
        NEON_REDUCE_SUM
        NEON_REDUCE_PRODUCT
        NEON_REDUCE_MAXIMUM
        NEON_REDUCE_MINIMUM
        NEON_REDUCE_LOG_SUM_EXP
        NEON_BEFORE_NOTHING
        NEON_BEFORE_ABSOLUTE
        NEON_BEFORE_SQUARE
        NEON_AFTER_NOTHING
        NEON_AFTER_FACTOR
        NEON_AFTER_ROOT
        NEON_AFTER_LOGARITHM
        NEON_MOST_STAGES

    ctypedef struct neon_reduction_stage:
        int64_t outer
        int64_t size
        int64_t inner
        int64_t chunks
        int64_t source
        int64_t target
        int32_t combine
        int32_t before
        int32_t after
        float factor

    ctypedef struct neon_reduction:
        neon_reduction_stage *stages

    ctypedef struct neon_reduction_kernels:
        dovetail_body *stages

    ctypedef struct neon_winograd:
        int64_t images
        int64_t in_height
        int64_t in_width
        int64_t out_height
        int64_t out_width
        int64_t padding_top
        int64_t padding_left
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
        const int32_t *group_vector
        int64_t groups
        neon_activation activation
        int32_t adds

    ctypedef struct neon_winograd_kernels:
        dovetail_body banded
        dovetail_body transform
        dovetail_body multiply
        void (*pack)(
            const float *weights, int64_t filter_step, int64_t tap_step, int64_t channel_step, int64_t first_filter,
            int64_t filters, int64_t vectors, int64_t channels, int64_t tile, float *packed) noexcept nogil

    enum: NEON_LONGEST_CHAIN

    ctypedef struct neon_stage:
        int32_t is_windows
        neon_convolution convolution
        neon_windows windows
        int64_t in_height
        int64_t stride
        int64_t padding
        int64_t reach
        int64_t strip
        int64_t block_step
        int64_t row

    ctypedef struct neon_strips:
        int64_t stages
        int64_t out_height
        int64_t rows
        neon_stage stage[NEON_LONGEST_CHAIN]

    ctypedef struct neon_strips_kernels:
        dovetail_body run

    ctypedef struct neon_kernels:
        const char *name
        int32_t lanes
        int32_t reserved
        const neon_convolution_kernels *convolution
        const neon_reorder_kernels *reorder
        const neon_windows_kernels *windows
        const neon_images_kernels *images
        const neon_movement_kernels *movement
        const neon_elementwise_kernels *elementwise
        const neon_rows_kernels *rows

        const neon_matmul_kernels *matmul
        const neon_attention_kernels *attention
        const neon_cast_kernels *cast
        const neon_resize_kernels *resize
        const neon_normalization_kernels *normalization
        const neon_reduction_kernels *reduction

        const neon_winograd_kernels *winograd

        const neon_strips_kernels *strips

    const neon_kernels *neon_kernels_of(const char *name)
    const char *neon_instruction_set(int index, int *here)


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
            int64_t channels, int32_t runs, unsigned short *packed) noexcept nogil

    const neon_bfloat16_kernels *neon_bfloat16_kernels_of(const char *instruction_set, const char *unit)


cdef extern from "interface/float16.h" nogil:
    ctypedef struct neon_float16_kernels:
        const char *name
        const neon_convolution_kernels *convolution
        const neon_strips_kernels *strips

    const neon_float16_kernels *neon_float16_kernels_of(const char *instruction_set, const char *unit)


cdef class Kernels:
    """The table of one instruction set, and that of products of bfloat16 or float16 if they are asked for.

    `convolution` and `strips` are what runs convolutions of images of float32: the table's own, or those of float16.
    """

    cdef const neon_kernels *table
    cdef const neon_bfloat16_kernels *bfloat16
    cdef const neon_float16_kernels *float16
    cdef const neon_convolution_kernels *convolution
    cdef const neon_strips_kernels *strips
