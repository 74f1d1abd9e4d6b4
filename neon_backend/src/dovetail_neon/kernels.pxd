"""The kernels in csrc, compiled once per instruction set and linked into this module alone."""

from dovetail_neon.interface.bfloat16 cimport neon_bfloat16_kernels
from dovetail_neon.interface.convolution cimport neon_convolution_kernels
from dovetail_neon.interface.float16 cimport neon_float16_kernels
from dovetail_neon.interface.kernels cimport neon_kernels
from dovetail_neon.interface.quantized cimport neon_quantized_kernels, neon_quantized_matrix_kernels
from dovetail_neon.interface.strips cimport neon_strips_kernels
from dovetail_neon.workloads.packed cimport PackedConstants


cdef class Kernels:
    """The table of one instruction set, and that of products of bfloat16 or float16 if they are asked for.

    `quantized` are those of quantized tensors, with dot products of bytes or without, `matrix` those of a matrix unit besides, or
    NULL; `convolution` and `strips` are what runs convolutions of images of float32: the table's own, or those of float16.
    `constants` holds what workloads pack: each network has kernels of its own.
    """

    cdef const neon_kernels *table
    cdef const neon_bfloat16_kernels *bfloat16
    cdef const neon_float16_kernels *float16
    cdef const neon_convolution_kernels *convolution
    cdef const neon_strips_kernels *strips
    cdef const neon_quantized_kernels *quantized
    cdef const neon_quantized_matrix_kernels *matrix
    cdef readonly PackedConstants constants
    cdef tuple arguments
