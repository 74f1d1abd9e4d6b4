"""Products of two quantized matrices that are both computed at run time."""

from libc.stdint cimport int32_t, int64_t

from dovetail_neon.quantized.parameters cimport acc_quantized_factor, acc_quantized_product
from dovetail_neon.quantized.requantization cimport BLOCK
from dovetail_neon.quantized.scales cimport fixed_point
from dovetail_neon.workload.making cimport Kernels, Workload, chunks_of, keep_integers, new_workload, parts

import math

import numpy as np


cdef int fill_factor(
    Workload workload, acc_quantized_factor *f, int input, tuple own, tuple batch, tuple steps, int32_t zero
) except -1:
    """Say where the elements of an operand lie; `steps` are of its lines and of its depth."""
    count = math.prod(own)
    f.input, f.zero = input, zero
    f.line_step, f.depth_step, f.matrix_step = steps
    f.step = 0 if count == 1 else 1
    if count != 1 and count != math.prod(batch):
        index = np.broadcast_to(np.arange(count, dtype=np.int64).reshape(own), batch)
        f.matrices = keep_integers(workload, np.ascontiguousarray(index).reshape(-1))
    return 0


cdef tuple matrix_of(tuple sizes, bint transposed, bint is_right):
    """Return (batch sizes, lines, depth, steps of lines, depth and matrices) of an operand.

    A vector on the left is a row, one on the right a column.
    """
    if len(sizes) == 1:
        return (), 1, sizes[0], (sizes[0], 1, sizes[0])
    outer = len(sizes) - 2
    batch, height, width = sizes[:outer], sizes[outer], sizes[outer + 1]
    if transposed != is_right:      # lines are columns of what is stored
        return batch, width, height, (1, width, height * width)
    return batch, height, width, (width, 1, height * width)


def create(layer, Kernels kernels):
    """Return the workload of a `ProductQuantized`."""
    d, info = layer.descriptor, layer.output.info
    cdef Workload workload = new_workload(sizeof(acc_quantized_product), 2, 1)
    cdef acc_quantized_product *p = <acc_quantized_product *>workload.state.parameters
    sizes = [one.sizes for one in layer.input_infos]
    left, rows, depth, left_steps = matrix_of(tuple(sizes[0]), d.transpose_a, False)
    right, columns, _, right_steps = matrix_of(tuple(sizes[1]), d.transpose_b, True)
    if not info.elements:
        return workload.capsule()
    cdef tuple batch = np.broadcast_shapes(left, right)
    cdef int32_t shift = 128 if info.dtype.is_signed else 0
    sides = [(0, left, left_steps, d.zeros[0] + shift), (1, right, right_steps, d.zeros[1] + shift)]
    if columns == 1 and rows > 1:   # a column is a row from the other side
        rows, columns = columns, rows
        sides = sides[::-1]
    p.rows, p.columns, p.depth, p.pairs = rows, columns, depth, parts(depth, 2)
    p.panels = parts(p.columns, BLOCK)
    input, own, steps, zero = sides[0]
    fill_factor(workload, &p.left, input, own, batch, steps, zero)
    cdef int64_t left_lines = math.prod(own) * p.rows
    input, own, steps, zero = sides[1]
    fill_factor(workload, &p.right, input, own, batch, steps, zero)
    cdef int64_t right_panels = math.prod(own) * p.panels
    p.scale = fixed_point(d.scale)
    p.sign = 0x80 if info.dtype.is_signed else 0
    p.low = -128 if info.dtype.is_signed else 0
    p.high, p.zero = p.low + 255, d.zeros[2]
    p.packed_right = parts(left_lines * p.pairs * 4, 64) * 64
    workload.state.shared = p.packed_right + right_panels * p.pairs * BLOCK * 4
    workload.phase(kernels.quantized.pack_left, left_lines, left_lines * p.depth * (0.1 if p.left.depth_step == 1 else 1.0))
    workload.phase(kernels.quantized.pack_right, right_panels, right_panels * BLOCK * p.depth * 0.5)
    batches = math.prod(batch)
    nanoseconds = batches * p.rows * p.panels * (p.pairs * 0.5 + 20.0)
    p.chunks = max(1, min(parts(chunks_of(nanoseconds, 8_000, 48), batches * p.panels), p.rows // 8))
    workload.phase(kernels.quantized.multiply, batches * p.panels * p.chunks, nanoseconds)
    return workload.capsule()
