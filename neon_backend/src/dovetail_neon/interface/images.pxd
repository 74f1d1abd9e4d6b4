from libc.stdint cimport int32_t, int64_t

from dovetail.abi cimport dovetail_body
from dovetail_neon.interface.activation cimport neon_activation


cdef extern from "interface/images.h" nogil:
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

    ctypedef struct neon_interleave:
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

    ctypedef struct neon_flat:
        neon_activation activation

    ctypedef struct neon_images_kernels:
        dovetail_body scale
        dovetail_body join
        dovetail_body frame
        dovetail_body interleave
        dovetail_body apply
        dovetail_body copy
