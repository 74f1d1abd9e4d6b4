from libc.stdint cimport int32_t, int64_t

from dovetail.abi cimport dovetail_body
from dovetail_neon.interface.activation cimport neon_activation
from dovetail_neon.interface.packing cimport neon_packing


cdef extern from "interface/winograd.h" nogil:
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
            int64_t filters, int64_t vectors, int64_t channels, int64_t tile, float *packed,
            neon_packing *packing) noexcept nogil
