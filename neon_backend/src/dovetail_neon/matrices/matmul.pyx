"""Multiply computed matrices; those with constant weights are convolutions of one tap."""

from libc.stdint cimport int64_t

from dovetail_neon.matrices.parameters cimport acc_matmul, acc_matmul_kernels
from dovetail_neon.workload.making cimport Kernels, Workload, chunks_of, new_workload, parts

import math

import numpy as np


cdef enum:
    TOUCHED = 1 << 24           # bytes of results, rows of which lie apart, that are written between two looks at the stop word
    LARGE = 1048576             # bytes of a matrix that will hardly be in the caches of a core


cdef const int64_t *matrices_of(Workload workload, tuple own, tuple batch, int64_t *step) except? NULL:
    """Which matrix of an operand each batch has, as a step if that says it all."""
    cdef int64_t count = math.prod(own), i
    step[0] = 0 if count == 1 else 1
    if count == 1 or count == math.prod(batch):
        return NULL
    index = np.broadcast_to(np.arange(count, dtype=np.int64).reshape(own), batch).reshape(-1)
    cdef const int64_t[::1] flat = np.ascontiguousarray(index)
    cdef int64_t *copy = <int64_t *>workload.allocate(flat.shape[0] * sizeof(int64_t))
    for i in range(flat.shape[0]):
        copy[i] = flat[i]
    return copy


def create(layer, Kernels kernels):
    """Return the workload of a `MatMul`."""
    d = layer.descriptor
    a, b = (info.sizes for info in layer.input_infos)
    # NumPy's rules: a vector on the left is a row, one on the right a column.
    left_transposed, right_transposed = d.transpose_a and len(a) > 1, d.transpose_b and len(b) > 1
    a, b = (1, *a) if len(a) == 1 else a, (*b, 1) if len(b) == 1 else b
    *left_batch, rows, depth = a
    *right_batch, height, columns = b
    if left_transposed:
        rows, depth = depth, rows
    if right_transposed:
        columns = height
    left_batch, right_batch = tuple(left_batch), tuple(right_batch)
    batch = np.broadcast_shapes(left_batch, right_batch)
    left, right = 0, 1
    if columns == 1 and rows > 1:  # a column is a row from the other side
        rows, columns, left, right, left_batch, right_batch = 1, rows, 1, 0, right_batch, left_batch
        left_transposed, right_transposed = False, not left_transposed
    left_transposed = left_transposed and rows > 1 and depth > 1
    if math.prod(right_batch) == 1 and not left_transposed:  # all batches are rows of one product
        rows, batch, left_batch, right_batch = rows * math.prod(left_batch), (), (), ()

    cdef Workload workload = new_workload(sizeof(acc_matmul), 2, 1)
    cdef acc_matmul *m = <acc_matmul *>workload.state.parameters
    cdef const acc_matmul_kernels *table = kernels.table.matmul
    m.batches, m.rows, m.columns, m.depth, m.left, m.right = math.prod(batch), rows, columns, depth, left, right
    m.left_transposed, m.right_transposed = left_transposed, right_transposed
    if layer.output.info.nbytes == 0:
        return workload.capsule()
    m.left_matrix = matrices_of(workload, left_batch, batch, &m.left_step)
    m.right_matrix = matrices_of(workload, right_batch, batch, &m.right_step)

    cdef int lanes = kernels.table.lanes
    cdef int64_t vectors = parts(m.columns, lanes), matrices
    m.panels = parts(vectors, table.vectors)
    m.rows_at_once = max(parts(TOUCHED, m.columns * 4) // table.rows, 1) * table.rows if m.rows * m.columns * 4 > TOUCHED else m.rows
    nanoseconds = m.batches * m.rows * vectors * m.depth / 5.0
    wanted = chunks_of(nanoseconds, 8_000, 48)
    if m.left_transposed:
        matrices = math.prod(left_batch)
        cost = matrices * m.rows * m.depth / 4.0
        workload.phase(table.pack_left, matrices * parts(m.rows, lanes), cost)
        workload.state.shared = parts(matrices * m.rows * m.depth * 4, 64) * 64
    cdef bint large = m.depth * m.columns * 4 > LARGE
    if m.depth > 0 and m.rows <= (table.dot_rows if right_transposed else table.few_rows if large else 1):
        # Bound by memory: the right matrices are read once, as they lie.
        nanoseconds = max(nanoseconds, m.batches * m.columns * m.depth / 5.0)
        wanted = parts(chunks_of(nanoseconds, 8_000, 48), m.batches)
        if right_transposed:
            m.chunks = max(1, min(wanted, vectors))
        else:
            # Runs long enough that memory delivers them, and short enough that what is added to
            # stays in the L1 cache.
            m.chunks = max(1, parts(m.columns, 2048 // m.rows), min(wanted, m.columns // 512))
        body = table.dots if right_transposed else table.few
        workload.phase(body, m.batches * m.chunks, nanoseconds)
        return workload.capsule()
    body = table.direct
    if m.depth > 0 and (right_transposed or m.rows >= 3 * table.rows and m.depth * m.columns > 4096):
        matrices = math.prod(right_batch)
        m.packed_right = workload.state.shared // 4
        workload.state.shared += matrices * vectors * lanes * m.depth * 4
        cost = matrices * m.depth * vectors * lanes / (4.0 if right_transposed else 10.0)
        workload.phase(
            table.pack_right_transposed if right_transposed else table.pack_right, matrices * vectors, cost)
        body = table.packed
    m.chunks = max(1, min(parts(wanted, m.batches * m.panels), m.rows // (2 * table.rows)))
    workload.phase(body, m.batches * m.panels * m.chunks, nanoseconds)
    return workload.capsule()
