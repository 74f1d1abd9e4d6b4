from libc.stdint cimport int32_t

from dovetail_neon.attention.parameters cimport acc_attention_kernels
from dovetail_neon.elementwise.parameters cimport acc_cast_kernels
from dovetail_neon.convolution.parameters cimport acc_convolution_kernels
from dovetail_neon.elementwise.parameters cimport acc_elementwise_kernels
from dovetail_neon.convolution.parameters cimport acc_grouped_kernels
from dovetail_neon.movement.parameters cimport acc_images_kernels
from dovetail_neon.matrices.parameters cimport acc_matmul_kernels
from dovetail_neon.movement.parameters cimport acc_movement_kernels
from dovetail_neon.rows.parameters cimport acc_normalization_kernels
from dovetail_neon.quantized.parameters cimport acc_quantized_kernels
from dovetail_neon.recurrent.parameters cimport acc_recurrent_kernels
from dovetail_neon.rows.parameters cimport acc_reduction_kernels
from dovetail_neon.movement.parameters cimport acc_reorder_kernels
from dovetail_neon.resizing.parameters cimport acc_resize_kernels
from dovetail_neon.rows.parameters cimport acc_rows_kernels
from dovetail_neon.strips.parameters cimport acc_strips_kernels
from dovetail_neon.windows.parameters cimport acc_windows_kernels
from dovetail_neon.convolution.parameters cimport acc_winograd_kernels


cdef extern from "dovetail_neon/instruction_sets/table.h" nogil:
    ctypedef struct acc_kernels:
        const char *name
        int32_t lanes
        int32_t reserved
        const acc_convolution_kernels *convolution
        const acc_reorder_kernels *reorder
        const acc_windows_kernels *windows
        const acc_images_kernels *images
        const acc_movement_kernels *movement
        const acc_elementwise_kernels *elementwise
        const acc_rows_kernels *rows

        const acc_matmul_kernels *matmul
        const acc_attention_kernels *attention
        const acc_cast_kernels *cast
        const acc_resize_kernels *resize
        const acc_normalization_kernels *normalization
        const acc_reduction_kernels *reduction

        const acc_winograd_kernels *winograd
        const acc_grouped_kernels *grouped

        const acc_strips_kernels *strips
        const acc_quantized_kernels *quantized
        const acc_recurrent_kernels *recurrent

    const acc_kernels *acc_kernels_of(const char *name)

    const char *acc_instruction_set(int index, int *here)
