"""Fully connected layers and batched matrix products, on the packed tiles of `product.h`.

One side gives the rows of a tile, the other its columns; which is which only matters for speed, so
a product with few columns is computed transposed. Transposed operands and broadcast batches are
strides. float32 and float64 are summed in float64, integers modulo 2^64 (hence modulo their own
width), quantized layers in int32, words of 16 bits in float64, which is exact. LiteRT's reference
kernels then scale matrix products in fixed point
(tflite/kernels/internal/reference/integer_ops/batch_matmul.h) and fully connected layers in double.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from dovetail.abi cimport DOVETAIL_CANCELLED, DOVETAIL_OK, dovetail_call, tensor_data
from dovetail_reference.workloads.activations cimport FusedFunction, apply, fused_function
from dovetail_reference.workloads.blocks cimport load_wholes, store_wholes
from dovetail_reference.workloads.elements cimport FLOAT32, FLOAT64, INT8, INT16, MAX_RANK, Element, cancelled, element_of
from dovetail_reference.workloads.product cimport DEPTH_AT_ONCE, TILE_COLUMNS, TILE_ROWS, packable, panels_at_once
from dovetail_reference.workloads.product cimport product_double, product_int32, product_int64, product_workspace
from dovetail_reference.workloads.requantize cimport clamp_sum, product_scale, requantization, requantization_of
from dovetail_reference.workloads.requantize cimport requantize, requantize_wide, rescale
from dovetail_reference.workloads.workload cimport new_workload, state_of, stated_workspace, workload_of

from dovetail import DType
from dovetail.layers import FullyConnected

from .quantized import clamp_range, has_words, is_quantized

cdef enum:
    AT_ONCE = 64    # integers of a line that are converted at once


cdef struct Side:
    # One operand: its lines (rows or columns of the product) and its depth.
    Element element
    int64_t itemsize
    int input               # index in the call
    int64_t lines
    int64_t line_stride
    int64_t depth_stride
    int64_t batch_steps[MAX_RANK]
    bint wide               # integers become doubles, which hold sums of words exactly
    const int32_t *zeros    # zero point per line, or NULL for `zero` in all of them
    int32_t zero


cdef struct State:
    size_t workspace
    Element output
    int64_t itemsize        # of the result
    bint quantized
    bint bias
    bint swapped            # rows of the tile are columns of the result
    int64_t depth
    int64_t row_stride      # of the result, per row and column of the tile
    int64_t column_stride
    Side rows
    Side columns
    int batch_rank
    int64_t batch_sizes[MAX_RANK]
    FusedFunction activation
    # Quantized layers only.
    bint narrow             # words of 16 bits with a bias of 32: their sums have 32 bits, too
    bint connected          # a fully connected layer: scaled by `real_factors`, a matrix product by `factors`
    int32_t out_zero
    int32_t low
    int32_t high
    double *real_factors        # per column of the result, behind the state; so are the other two
    requantization *factors
    int32_t *weight_zeros


cdef void pack_lines(
    const Side *side, const packable *source, int64_t depth, int64_t first, int64_t count, int64_t width, void *packed
) noexcept nogil:
    """Convert `count` lines from `first` to [depth][width]; missing ones give zeros.

    Elements are floats or quantized bytes.
    """
    cdef int64_t k, j, at
    cdef int32_t zero
    for k in range(depth):
        for j in range(width):
            at = (first + j) * side.line_stride + k * side.depth_stride
            if packable is float or packable is double:
                (<double *>packed)[k * width + j] = <double>source[at] if j < count else 0.0
            else:
                zero = side.zero
                if side.zeros != NULL and j < count:
                    zero = side.zeros[first + j]
                (<uint32_t *>packed)[k * width + j] = <uint32_t>(<int32_t>source[at] - zero) if j < count else 0


cdef void pack_wide_lines(
    const Side *side, const packable *source, int64_t depth, int64_t first, int64_t count, int64_t width, double *packed
) noexcept nogil:
    """The same for quantized words, and for what is multiplied by them."""
    cdef int64_t k, j
    cdef int32_t zero
    for k in range(depth):
        for j in range(width):
            zero = side.zero if side.zeros == NULL or j >= count else side.zeros[first + j]
            packed[k * width + j] = (
                <double>source[(first + j) * side.line_stride + k * side.depth_stride] - zero if j < count else 0.0
            )


cdef void pack_whole_lines(
    const Side *side, const char *source, int64_t depth, int64_t first, int64_t count, int64_t width, int64_t *packed
) noexcept nogil:
    """The same for plain integers of any width."""
    cdef int64_t values[AT_ONCE]
    cdef int64_t along = side.line_stride * side.itemsize, down = side.depth_stride * side.itemsize
    cdef int64_t i, j, k, n
    source += first * along
    if count < width:
        memset(packed, 0, depth * width * sizeof(int64_t))
    if side.line_stride < side.depth_stride or count > TILE_ROWS:
        for k in range(depth):
            load_wholes(side.element, source + k * down, along, count, packed + k * width)
        return
    k = 0
    while k < depth:    # so few of each line at once that what is packed of them stays in the first cache
        n = min(<int64_t>AT_ONCE, depth - k)
        for j in range(count):
            load_wholes(side.element, source + j * along + k * down, down, n, values)
            for i in range(n):
                packed[(k + i) * width + j] = values[i]
        k += n


cdef void pack(
    const State *s, const Side *side, const dovetail_call *call, int64_t offset, int64_t depth, int64_t first, int64_t width,
    void *packed,
) noexcept nogil:
    """Pack up to `width` lines of an operand from the element `offset`, as far as they exist."""
    cdef int64_t n = min(side.lines - first, width)
    cdef const char *source = <const char *>tensor_data(&call.inputs[side.input]) + offset * side.itemsize
    if side.element == FLOAT32:
        pack_lines(side, <const float *>source, depth, first, n, width, packed)
    elif side.element == FLOAT64:
        pack_lines(side, <const double *>source, depth, first, n, width, packed)
    elif not s.quantized:
        pack_whole_lines(side, source, depth, first, n, width, <int64_t *>packed)
    elif side.element == INT16:
        pack_wide_lines(side, <const int16_t *>source, depth, first, n, width, <double *>packed)
    elif side.wide:
        pack_wide_lines(side, <const int8_t *>source, depth, first, n, width, <double *>packed)
    elif side.element == INT8:
        pack_lines(side, <const int8_t *>source, depth, first, n, width, packed)
    else:
        pack_lines(side, <const uint8_t *>source, depth, first, n, width, packed)


cdef void store_tile(
    const State *s, const double *sums, const void *bias, int64_t row, int64_t column, packable *output
) noexcept nogil:
    """Finish and write a tile of sums of floats or quantized bytes, with corner (row, column)."""
    cdef int64_t r, c, at, which, wide
    cdef int32_t whole
    cdef double value
    for r in range(min(<int64_t>TILE_ROWS, s.rows.lines - row)):
        for c in range(min(<int64_t>TILE_COLUMNS, s.columns.lines - column)):
            at = (row + r) * s.row_stride + (column + c) * s.column_stride
            which = row + r if s.swapped else column + c
            if packable is float or packable is double:
                value = sums[r * TILE_COLUMNS + c]
                if bias != NULL:
                    value += <double>(<const packable *>bias)[which]
                output[at] = <packable>apply(&s.activation, value)
            elif packable is int16_t:
                wide = <int64_t>sums[r * TILE_COLUMNS + c]
                if not s.connected:
                    whole = requantize_wide(wide, s.factors[which])
                    output[at] = <packable>clamp_sum(whole, s.out_zero, s.low, s.high)
                else:   # sums wrap where TensorFlow Lite's own are undefined
                    if s.narrow:
                        wide = <int32_t>(wide + (<const int32_t *>bias)[which])
                    elif bias != NULL:
                        wide = <int64_t>(<uint64_t>wide + <uint64_t>(<const int64_t *>bias)[which])
                    output[at] = <packable>rescale(wide, s.real_factors[which], s.out_zero, s.low, s.high)
            else:
                whole = (<const int32_t *>sums)[r * TILE_COLUMNS + c]
                if bias != NULL:
                    whole += (<const int32_t *>bias)[which]
                if s.connected:
                    output[at] = <packable>rescale(whole, s.real_factors[which], s.out_zero, s.low, s.high)
                else:
                    whole = requantize(whole, s.factors[which])
                    output[at] = <packable>clamp_sum(whole, s.out_zero, s.low, s.high)


cdef void store_whole_tile(
    const State *s, int64_t *sums, const char *bias, int64_t row, int64_t column, char *output
) noexcept nogil:
    """The same for plain integers of any width, modulo that."""
    cdef int64_t r, c, first, addend, columns = min(<int64_t>TILE_COLUMNS, s.columns.lines - column)
    for r in range(min(<int64_t>TILE_ROWS, s.rows.lines - row)):
        for c in range(columns if bias != NULL else 0):
            load_wholes(s.output, bias + (row + r if s.swapped else column + c) * s.itemsize, 0, 1, &addend)
            sums[r * TILE_COLUMNS + c] = <int64_t>(<uint64_t>sums[r * TILE_COLUMNS + c] + <uint64_t>addend)
        first = (row + r) * s.row_stride + column * s.column_stride
        store_wholes(
            s.output, sums + r * TILE_COLUMNS, False, columns, output + first * s.itemsize, s.column_stride * s.itemsize
        )


cdef void store(const State *s, const dovetail_call *call, double *sums, int64_t batch, int64_t row, int64_t column) noexcept nogil:
    """Finish one tile of a matrix of the batch."""
    cdef const void *bias = tensor_data(&call.inputs[2]) if s.bias else NULL
    cdef char *output = <char *>tensor_data(&call.outputs[0]) + batch * s.rows.lines * s.columns.lines * s.itemsize
    if s.output == FLOAT32:
        store_tile(s, sums, bias, row, column, <float *>output)
    elif s.output == FLOAT64:
        store_tile(s, sums, bias, row, column, <double *>output)
    elif not s.quantized:
        store_whole_tile(s, <int64_t *>sums, <const char *>bias, row, column, output)
    elif s.output == INT8:
        store_tile(s, sums, bias, row, column, <int8_t *>output)
    elif s.output == INT16:
        store_tile(s, sums, bias, row, column, <int16_t *>output)
    else:
        store_tile(s, sums, bias, row, column, <uint8_t *>output)


cdef int64_t operand_offset(const State *s, const Side *side, int64_t batch) noexcept nogil:
    """Offset in elements of an operand's matrix in a batch; broadcast axes have step zero."""
    cdef int64_t offset = 0
    cdef int axis
    for axis in range(s.batch_rank - 1, -1, -1):
        offset += batch % s.batch_sizes[axis] * side.batch_steps[axis]
        batch //= s.batch_sizes[axis]
    return offset


cdef void multiply(
    const State *s, int64_t depth, const double *rows, const double *panel, double *sums, bint more
) noexcept nogil:
    """The product of a tile, in the type that the operands were packed to."""
    if s.output == FLOAT32 or s.output == FLOAT64 or (s.quantized and s.output == INT16):
        product_double(depth, rows, panel, sums, more)
    elif s.quantized:
        product_int32(depth, <const uint32_t *>rows, <const uint32_t *>panel, <uint32_t *>sums, more)
    else:
        product_int64(depth, <const uint64_t *>rows, <const uint64_t *>panel, <uint64_t *>sums, more)


cdef int multiply_deep(const State *s, const dovetail_call *call, int64_t batch, int64_t block) noexcept nogil:
    """All rows at the columns of one panel, part by part of the depth."""
    cdef double sums[64]    # TILE_ROWS x TILE_COLUMNS of the widest type
    cdef int64_t tile, row, depth, n, column = block * TILE_COLUMNS
    cdef int64_t left = operand_offset(s, &s.rows, batch), right = operand_offset(s, &s.columns, batch)
    cdef double *packed = <double *>call.workspace
    cdef double *panel = packed + DEPTH_AT_ONCE * TILE_ROWS
    for tile in range((s.rows.lines + TILE_ROWS - 1) // TILE_ROWS):
        row, depth = tile * TILE_ROWS, 0
        while depth < s.depth:
            if cancelled(call):
                return DOVETAIL_CANCELLED
            n = min(<int64_t>DEPTH_AT_ONCE, s.depth - depth)
            pack(s, &s.columns, call, right + depth * s.columns.depth_stride, n, column, TILE_COLUMNS, panel)
            pack(s, &s.rows, call, left + depth * s.rows.depth_stride, n, row, TILE_ROWS, packed)
            multiply(s, n, packed, panel, sums, depth > 0)
            depth += n
        store(s, call, sums, batch, row, column)
    return DOVETAIL_OK


cdef int multiply_block(const State *s, const dovetail_call *call, int64_t batch, int64_t block) noexcept nogil:
    """All rows at the columns of one block: as many panels as are packed at once."""
    cdef double sums[64]    # TILE_ROWS x TILE_COLUMNS of the widest type
    cdef int64_t panels = panels_at_once(s.depth), begin = block * panels * TILE_COLUMNS
    cdef int64_t left = operand_offset(s, &s.rows, batch), right = operand_offset(s, &s.columns, batch)
    cdef int64_t j, tile, column, row
    cdef double *packed = <double *>call.workspace
    cdef double *panel = packed + s.depth * TILE_ROWS
    panels = min(panels, (s.columns.lines - begin + TILE_COLUMNS - 1) // TILE_COLUMNS)
    for j in range(panels):
        column = begin + j * TILE_COLUMNS
        pack(s, &s.columns, call, right, s.depth, column, TILE_COLUMNS, panel + j * s.depth * TILE_COLUMNS)
    for tile in range((s.rows.lines + TILE_ROWS - 1) // TILE_ROWS):
        if cancelled(call):
            return DOVETAIL_CANCELLED
        row = tile * TILE_ROWS
        pack(s, &s.rows, call, left, s.depth, row, TILE_ROWS, packed)
        for j in range(panels):
            multiply(s, s.depth, packed, panel + j * s.depth * TILE_COLUMNS, sums, False)
            store(s, call, sums, batch, row, begin + j * TILE_COLUMNS)
    return DOVETAIL_OK


cdef int execute(void *opaque, const dovetail_call *call) noexcept nogil:
    cdef const State *s = <const State *>opaque
    cdef int64_t span = panels_at_once(s.depth) * TILE_COLUMNS, batches = 1, batch, block
    cdef int axis, status
    for axis in range(s.batch_rank):
        batches *= s.batch_sizes[axis]
    for batch in range(batches):
        for block in range((s.columns.lines + span - 1) // span):
            if s.depth > DEPTH_AT_ONCE:
                status = multiply_deep(s, call, batch, block)
            else:
                status = multiply_block(s, call, batch, block)
            if status != DOVETAIL_OK:
                return status
    return DOVETAIL_OK


cdef void fill_batches(State *s, Side *side, tuple shape, tuple batches) except *:
    """Steps of an operand's leading axes, aligned at the right to the batch axes of the result."""
    cdef int axis, missing = len(batches) - len(shape) + 2
    height, width = last_two(shape)
    cdef int64_t step = height * width
    for axis in range(len(batches) - 1, missing - 1, -1):
        side.batch_steps[axis] = 0 if shape[axis - missing] == 1 else step
        step *= shape[axis - missing]


def last_two(shape):
    """Return the height and width of stacked matrices; directives exclude negative indices."""
    return shape[len(shape) - 2], shape[len(shape) - 1]


cdef void fill_matmul(State *s, object layer) except *:
    """Geometry of a `MatMul`: an operand of rank 1 is a row on the left, a column on the right."""
    descriptor = layer.descriptor
    a, b = layer.input_infos[0].sizes, layer.input_infos[1].sizes
    cdef bint swap_a = descriptor.transpose_a and len(a) > 1, swap_b = descriptor.transpose_b and len(b) > 1
    cdef int axis
    a = a if len(a) > 1 else (1, *a)
    b = b if len(b) > 1 else (*b, 1)
    a_height, a_width = last_two(a)
    b_height, b_width = last_two(b)
    s.depth = a_height if swap_a else a_width
    s.rows.lines = a_width if swap_a else a_height
    s.columns.lines = b_height if swap_b else b_width
    s.rows.line_stride, s.rows.depth_stride = 1 if swap_a else a_width, a_width if swap_a else 1
    s.columns.line_stride, s.columns.depth_stride = b_width if swap_b else 1, 1 if swap_b else b_width
    s.batch_rank = max(len(a), len(b)) - 2
    batches = layer.output_infos[0].sizes[:s.batch_rank]
    for axis in range(s.batch_rank):
        s.batch_sizes[axis] = batches[axis]
    fill_batches(s, &s.rows, a, batches)
    fill_batches(s, &s.columns, b, batches)


cdef void fill_fully_connected(State *s, object layer) except *:
    """Geometry of a `FullyConnected`: all leading axes are rows."""
    x, weights = layer.input_infos[0].sizes, layer.input_infos[1].sizes
    cdef int64_t lines = 1
    for size in x[: len(x) - 1]:
        lines *= size
    s.depth, s.rows.lines, s.columns.lines = weights[1], lines, weights[0]
    s.rows.line_stride = s.columns.line_stride = s.depth
    s.rows.depth_stride = s.columns.depth_stride = 1
    s.bias = layer.input_infos[2] is not None if len(layer.inputs) > 2 else False
    s.narrow = s.quantized and s.output == INT16 and s.bias and layer.input_infos[2].dtype is DType.INT32
    s.activation = fused_function(layer.descriptor)


cdef void fill_quantization(State *s, object layer) except *:
    """Zero points, factors and clamps; the factors count the columns of the result."""
    descriptor = layer.descriptor
    x, weights = layer.input_infos[0].quantization, layer.input_infos[1].quantization
    info = layer.output_infos[0]
    cdef double out_scale = info.quantization.scale[0], in_scale = x.scale[0]
    cdef int64_t i, which
    s.connected = isinstance(descriptor, FullyConnected)
    s.rows.zero, s.out_zero = x.zero_point[0], info.quantization.zero_point[0]
    s.low, s.high = clamp_range(
        getattr(descriptor, "activation", None),
        getattr(descriptor, "activation_alpha", 0.0),
        getattr(descriptor, "activation_beta", 0.0),
        info.dtype,
        info.quantization,
    )
    for i in range(s.columns.lines):
        which = i if weights.is_per_axis else 0
        s.real_factors[i] = product_scale(in_scale, weights.scale[which], False) / out_scale
        s.factors[i] = requantization_of(product_scale(in_scale, weights.scale[which], True) / out_scale)
        s.weight_zeros[i] = weights.zero_point[which]
    s.columns.zeros = s.weight_zeros


def quantized_product(layer):
    """Return whether integers stand for reals: if fully connected, or in a marked matmul."""
    if isinstance(layer.descriptor, FullyConnected):
        return is_quantized(layer) or (has_words(layer) and layer.input_infos[1].dtype is DType.INT8)
    infos = (*layer.input_infos, *layer.output_infos)
    return has_words(layer) or (is_quantized(layer) and any(info.quantization is not None for info in infos))


def create(layer, dtype):
    """Return the workload capsule; `dtype` is FLOAT32, FLOAT64 or an integer type."""
    cdef bint connected = isinstance(layer.descriptor, FullyConnected), quantized = quantized_product(layer)
    cdef int64_t columns
    y = layer.output_infos[0].sizes
    columns = y[len(y) - 1] if connected or layer.input_infos[1].rank > 1 else 1
    cdef size_t tail = columns * (sizeof(double) + sizeof(requantization) + sizeof(int32_t)) if quantized else 0
    capsule = new_workload(execute, sizeof(State) + tail)
    cdef State *s = <State *>state_of(capsule)
    s.quantized = quantized
    s.output = s.rows.element = element_of(dtype)
    s.columns.element = element_of(layer.input_infos[1].dtype) if quantized else s.output
    s.itemsize, s.rows.itemsize = dtype.itemsize, dtype.itemsize
    s.columns.itemsize = layer.input_infos[1].dtype.itemsize if quantized else s.itemsize
    s.rows.wide = s.columns.wide = quantized and s.output == INT16
    s.columns.input = 1
    s.real_factors = <double *>(s + 1)
    s.factors = <requantization *>(s.real_factors + columns)
    s.weight_zeros = <int32_t *>(s.factors + columns)
    if connected:
        fill_fully_connected(s, layer)
    else:
        fill_matmul(s, layer)
    s.row_stride, s.column_stride = s.columns.lines, 1
    if quantized:
        fill_quantization(s, layer)
    if s.columns.lines < s.rows.lines and s.columns.lines < 8:   # most of a tile would be empty
        s.swapped = True
        s.rows, s.columns = s.columns, s.rows
        s.row_stride, s.column_stride = s.column_stride, s.row_stride
    s.workspace = product_workspace(s.depth)
    workload_of(capsule).workspace = stated_workspace
    return capsule
