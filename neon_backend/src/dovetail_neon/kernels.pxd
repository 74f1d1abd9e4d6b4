"""The kernels, compiled once per instruction set and linked into this module alone."""

from dovetail_neon.convolution.parameters cimport acc_convolution_kernels
from dovetail_neon.instruction_sets.precisions cimport acc_precision
from dovetail_neon.instruction_sets.table cimport acc_kernels
from dovetail_neon.quantized.parameters cimport acc_quantized_kernels, acc_quantized_matrix_kernels
from dovetail_neon.strips.parameters cimport acc_strips_kernels
from dovetail_neon.workload.packed cimport PackedConstants


cdef class Kernels:
    """The table of one instruction set, and the kernels of a reduced precision if asked for.

    `reduced` is NULL without. `quantized` are those of quantized tensors, with dot products of
    bytes or without, `matrix` those of a matrix unit besides, or NULL. `constants` holds what
    workloads pack: each network has kernels of its own.
    """

    cdef const acc_kernels *table
    cdef const acc_precision *reduced
    cdef const acc_quantized_kernels *quantized
    cdef const acc_quantized_matrix_kernels *matrix
    cdef readonly PackedConstants constants
    cdef tuple arguments
    cdef const acc_convolution_kernels *convolution_of(self, str precision) except NULL
    cdef const acc_strips_kernels *strips_of(self, tuple stages) except NULL
