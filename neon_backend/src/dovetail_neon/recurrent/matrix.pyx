"""Weights of recurrent layers, packed once."""

from libc.stdint cimport int8_t, int32_t, int64_t

from dovetail_neon.quantized.requantization cimport kept
from dovetail_neon.recurrent.parameters cimport ACC_PANEL, acc_fixed_factor, acc_recurrent_matrix
from dovetail_neon.workload.making cimport Block, Kernels, Packing, Workload, acc_packing, new_block, parts

import numpy as np

from dovetail.ground.pieces import reduced

cdef enum:
    PIECE = 16                      # bytes


cdef int32_t byte_shift(Kernels kernels, int unit) except? -1:
    """What is added to stored int8 to have the elements that a unit multiplies."""
    return 128 if unit and not kernels.quantized.is_signed else 0


cdef acc_fixed_factor factor_of(object scaling) except *:
    cdef acc_fixed_factor factor
    factor.multiplier, factor.shift = scaling
    return factor


cdef int64_t take(Workload workload, int64_t nbytes) except -1:
    """Return where a part of the workspace begins, and what is read behind it belongs to it."""
    cdef int64_t place = workload.state.shared
    workload.state.shared += parts(nbytes + LINE, LINE) * LINE
    return place


cdef int measure(acc_recurrent_matrix *m, object weights, object dtype, object name, int64_t lanes) except -1:
    """Fill in how the rows of weights are shared out to panels."""
    if weights.dtype != dtype or weights.ndim != 2:
        raise ValueError(f"weights {weights.dtype}{weights.shape} of {name!r}")
    m.rows, m.depth = weights.shape
    m.vectors = parts(m.rows, lanes)
    m.panels = parts(m.vectors, ACC_PANEL)
    return 0


cdef int pack_floats(
    Workload workload, acc_recurrent_matrix *m, object weights, object bias, int64_t states, object name, Kernels kernels,
) except -1:
    """Pack float32 weights [rows, depth]; sums begin with a bias, or 0."""
    cdef int64_t lanes = kernels.table.lanes
    measure(m, weights, np.float32, name, lanes)
    m.pieces, m.step = m.depth, parts(m.depth * 4, LINE) * LINE
    # Some 40 products per nanosecond; the first use of a weight takes as long as several.
    nanoseconds = <double>m.vectors * lanes * m.depth * (states + 4) / 40.0
    m.shares = m.panels > 1 and nanoseconds > WORTH_SHARING
    begins = np.zeros(m.vectors * lanes, np.float32)
    if bias is not None:
        begins[:m.rows] = bias
    m.begins = kept(workload, begins)
    form = ("recurrent",)
    cdef void *packed = workload.packed_before(kernels.constants, weights, form)
    cdef Block block
    cdef Packing packing
    cdef acc_packing *asking
    cdef float *target
    cdef const float *data = <const float *><size_t>weights.__array_interface__["data"][0]
    cdef int64_t row_step = weights.strides[0] // 4, column_step = weights.strides[1] // 4
    if packed == NULL:
        block = new_block(m.vectors * lanes * m.depth * 4)
        packing, target = Packing(), <float *>block.data
        asking = packing.start()
        with nogil:
            kernels.table.recurrent.pack(data, row_step, column_step, m, target, asking)
        packing.finish()
        packed = workload.share(kernels.constants, block, weights, form, name)
    m.packed = <const char *>packed
    return 0


cdef int pack_bytes(
    Workload workload, acc_recurrent_matrix *m, object weights, object bias, int32_t zero, int64_t states, object name,
    Kernels kernels,
) except -1:
    """Pack int8 weights [rows, depth]; sums begin with a bias, or 0, for states of a zero point."""
    cdef int unit = kernels.quantized.has_quads
    cdef int64_t element = 1 if unit else 2, lanes = kernels.table.lanes
    measure(m, weights, np.int8, name, lanes)
    m.pieces = parts(m.depth * element, PIECE)
    m.step = parts(m.pieces * PIECE, LINE) * LINE
    # Some 100 products of bytes per nanosecond; the first use of a weight takes as long as several.
    nanoseconds = <double>m.vectors * lanes * m.depth * (states + 2) / (100.0 if unit else 30.0)
    m.shares = m.panels > 1 and nanoseconds > WORTH_SHARING
    begins = np.zeros(m.vectors * lanes, np.int64)
    if weights.size:
        begins[:m.rows] = reduced(np.add, weights, [1], np.int64).reshape(m.rows) * -(<int64_t>zero + byte_shift(kernels, unit))
    if bias is not None:
        begins[:m.rows] += bias
    m.begins = kept(workload, begins.astype(np.int32))      # modulo 2^32, as all sums are
    form = "recurrent bytes", unit
    cdef void *packed = workload.packed_before(kernels.constants, weights, form)
    cdef Block block
    cdef Packing packing
    cdef acc_packing *asking
    cdef char *target
    cdef const int8_t *data = <const int8_t *><size_t>weights.__array_interface__["data"][0]
    cdef int64_t row_step = weights.strides[0], column_step = weights.strides[1]
    if packed == NULL:
        block = new_block(m.vectors * lanes * m.pieces * PIECE)
        packing, target = Packing(), <char *>block.data
        asking = packing.start()
        with nogil:
            kernels.quantized.recurrent.pack[unit](data, row_step, column_step, m, target, asking)
        packing.finish()
        packed = workload.share(kernels.constants, block, weights, form, name)
    m.packed = <const char *>packed
    return 0
