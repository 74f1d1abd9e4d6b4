from libc.stdint cimport int32_t

from dovetail_neon.interface.attention cimport neon_attention_kernels
from dovetail_neon.interface.cast cimport neon_cast_kernels
from dovetail_neon.interface.convolution cimport neon_convolution_kernels
from dovetail_neon.interface.elementwise cimport neon_elementwise_kernels
from dovetail_neon.interface.images cimport neon_images_kernels
from dovetail_neon.interface.matmul cimport neon_matmul_kernels
from dovetail_neon.interface.movement cimport neon_movement_kernels
from dovetail_neon.interface.normalization cimport neon_normalization_kernels
from dovetail_neon.interface.quantized cimport neon_quantized_kernels
from dovetail_neon.interface.reduction cimport neon_reduction_kernels
from dovetail_neon.interface.reorder cimport neon_reorder_kernels
from dovetail_neon.interface.resize cimport neon_resize_kernels
from dovetail_neon.interface.rows cimport neon_rows_kernels
from dovetail_neon.interface.strips cimport neon_strips_kernels
from dovetail_neon.interface.windows cimport neon_windows_kernels
from dovetail_neon.interface.winograd cimport neon_winograd_kernels


cdef extern from "interface/kernels.h" nogil:
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
        const neon_quantized_kernels *quantized

    const neon_kernels *neon_kernels_of(const char *name)

    const char *neon_instruction_set(int index, int *here)
