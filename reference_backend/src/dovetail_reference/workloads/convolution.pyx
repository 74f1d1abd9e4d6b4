"""Convolution, depthwise and transposed convolution: all are one product of packed tiles.

A block of output pixels is gathered into panels [depth][TILE_COLUMNS], where depth runs over (tap,
channel) and padding gives zeros; a tile of filters is packed into [depth][TILE_ROWS]; `product.h`
multiplies them. The three kinds differ only in which input pixel a tap of an output pixel reads,
and in the strides of the weights. Depthwise is a convolution with as many groups as channels;
groups of one channel are summed directly, row by row, for there is no product of matrices in them.

Quantized layers subtract the zero points while packing, sum in int32, and requantize as TensorFlow
Lite does (tensorflow/lite/kernels/internal/reference/integer_ops/conv.h, and conv.h for uint8).
Words of 16 bits are summed in double, which holds these sums exactly, and requantized as sums of 64
bits, unless their bias has 32.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from dovetail.abi cimport DOVETAIL_CANCELLED, DOVETAIL_OK, dovetail_call, dovetail_tensor, tensor_data
from dovetail_reference.workloads.activations cimport FusedFunction, apply, fused_function
from dovetail_reference.workloads.elements cimport FLOAT32, FLOAT64, INT8, INT16, UINT8, Element, cancelled, element_of
from dovetail_reference.workloads.product cimport DEPTH_AT_ONCE, TILE_COLUMNS, TILE_ROWS, packable, panels_at_once
from dovetail_reference.workloads.product cimport product_double, product_int32, product_workspace
from dovetail_reference.workloads.requantize cimport product_scale, requantization, requantization_of, requantize
from dovetail_reference.workloads.requantize cimport clamp_sum, requantize_wide
from dovetail_reference.workloads.walking cimport errand, go_on, new_errand
from dovetail_reference.workloads.windows cimport fill_windows, windows
from dovetail_reference.workloads.workload cimport new_workload, state_of, stated_workspace, workload_of

from dovetail import DataLayout, DType
from dovetail.layers import DepthwiseConvolution2d, TransposeConvolution2d

from .quantized import clamp_range, has_words, is_quantized


cdef struct State:
    size_t workspace
    Element images          # element type of input and output
    Element weights         # differs from `images` only in quantized layers
    bint transposed
    bint biased             # input 2 is connected
    int64_t batch
    int64_t groups
    int64_t channels        # of the input, per group
    int64_t filters         # per group
    windows at
    # Strides in elements.
    int64_t in_image
    int64_t in_channel
    int64_t in_pixel
    int64_t out_image
    int64_t out_channel
    int64_t out_pixel
    int64_t weight_group
    int64_t weight_filter
    int64_t weight_channel
    int64_t weight_tap
    FusedFunction activation
    # Quantized layers only.
    int32_t in_zero
    int32_t out_zero
    int32_t low
    int32_t high
    bint narrow                 # words of 16 bits with a bias of 32: their sums have 32 bits, too
    requantization *factors     # per filter, behind the state; so are the zero points of the weights
    int32_t *weight_zeros


cdef inline int64_t depth_of(const State *s) noexcept nogil:
    return s.at.kernel[0] * s.at.kernel[1] * s.channels


cdef inline int64_t read_position(const State *s, int axis, int64_t position, int64_t tap) noexcept nogil:
    """The input row (or column) that a tap reads for an output row, or -1 where there is none."""
    cdef int64_t at
    if s.transposed:
        at = position + s.at.padding[axis] - tap * s.at.dilation[axis]
        if at < 0 or at % s.at.stride[axis] != 0:
            return -1
        at //= s.at.stride[axis]
    else:
        at = position * s.at.stride[axis] - s.at.padding[axis] + tap * s.at.dilation[axis]
    return at if 0 <= at < s.at.in_size[axis] else -1


cdef void gather(
    const State *s, const packable *images, int64_t first_tap, int64_t taps, int64_t first, int64_t count, void *panel
) noexcept nogil:
    """Fill the panel of some taps of `count` output pixels from `first`, over the whole batch."""
    cdef int64_t offsets[TILE_COLUMNS]
    cdef int64_t p, pixel, image, y, x, tap, c, k = 0
    cdef int64_t area = s.at.out_size[0] * s.at.out_size[1]
    for tap in range(first_tap, first_tap + taps):
        for p in range(TILE_COLUMNS):
            offsets[p] = -1
            if p < count:
                image, pixel = (first + p) // area, (first + p) % area
                y = read_position(s, 0, pixel // s.at.out_size[1], tap // s.at.kernel[1])
                x = read_position(s, 1, pixel % s.at.out_size[1], tap % s.at.kernel[1])
                if y >= 0 and x >= 0:
                    offsets[p] = image * s.in_image + (y * s.at.in_size[1] + x) * s.in_pixel
        for c in range(s.channels):
            for p in range(TILE_COLUMNS):
                if packable is float or packable is double:
                    (<double *>panel)[k] = 0.0 if offsets[p] < 0 else <double>images[offsets[p] + c * s.in_channel]
                elif packable is int16_t:
                    (<double *>panel)[k] = 0.0 if offsets[p] < 0 else images[offsets[p] + c * s.in_channel] - s.in_zero
                else:
                    (<uint32_t *>panel)[k] = 0 if offsets[p] < 0 else images[offsets[p] + c * s.in_channel] - s.in_zero
                k += 1


cdef void pack_filters(
    const State *s, const packable *weights, int64_t first_tap, int64_t taps, int64_t group, int64_t first, int64_t count,
    void *rows,
) noexcept nogil:
    """Pack some taps of `count` filters of a group from `first`; missing ones give zeros."""
    cdef int64_t r, tap, c, at
    cdef int32_t zero
    for r in range(TILE_ROWS):
        if packable is int8_t or packable is uint8_t:
            zero = s.weight_zeros[group * s.filters + first + r] if r < count else 0
        for tap in range(taps):
            for c in range(s.channels):
                at = group * s.weight_group + (first + r) * s.weight_filter + c * s.weight_channel
                at += (first_tap + tap) * s.weight_tap
                if packable is float or packable is double:
                    (<double *>rows)[(tap * s.channels + c) * TILE_ROWS + r] = <double>weights[at] if r < count else 0.0
                else:
                    (<uint32_t *>rows)[(tap * s.channels + c) * TILE_ROWS + r] = weights[at] - zero if r < count else 0


cdef void pack_wide_filters(
    const State *s, const int8_t *weights, int64_t first_tap, int64_t taps, int64_t group, int64_t first, int64_t count,
    double *rows,
) noexcept nogil:
    """The same for filters of words, as doubles."""
    cdef int64_t r, tap, c, at
    cdef int32_t zero
    for r in range(TILE_ROWS):
        zero = s.weight_zeros[group * s.filters + first + r] if r < count else 0
        for tap in range(taps):
            for c in range(s.channels):
                at = group * s.weight_group + (first + r) * s.weight_filter + c * s.weight_channel
                at += (first_tap + tap) * s.weight_tap
                rows[(tap * s.channels + c) * TILE_ROWS + r] = weights[at] - zero if r < count else 0.0


cdef void store(
    const State *s, const void *sums, const dovetail_tensor *bias, int64_t filter, int64_t rows, int64_t first, int64_t count,
    packable *output
) noexcept nogil:
    """Finish and write the sums of `rows` filters (over all groups) at `count` pixels."""
    cdef int64_t r, p, at, area = s.at.out_size[0] * s.at.out_size[1]
    cdef int32_t whole
    cdef int64_t wide
    cdef double value
    for r in range(rows):
        for p in range(count):
            at = (first + p) // area * s.out_image + (first + p) % area * s.out_pixel + (filter + r) * s.out_channel
            if packable is float or packable is double:
                value = (<const double *>sums)[r * TILE_COLUMNS + p]
                if bias != NULL:
                    value += <double>(<const packable *>tensor_data(bias))[filter + r]
                output[at] = <packable>apply(&s.activation, value)
            elif packable is int16_t:
                wide = <int64_t>(<const double *>sums)[r * TILE_COLUMNS + p]
                if s.narrow:
                    wide += (<const int32_t *>tensor_data(bias))[filter + r]
                    whole = requantize(<int32_t>wide, s.factors[filter + r])
                else:
                    if bias != NULL:    # whose sum wraps where TensorFlow Lite's own is undefined
                        wide = <int64_t>(<uint64_t>wide + <uint64_t>(<const int64_t *>tensor_data(bias))[filter + r])
                    whole = requantize_wide(wide, s.factors[filter + r])
                output[at] = <packable>clamp_sum(whole, s.out_zero, s.low, s.high)
            else:
                whole = (<const int32_t *>sums)[r * TILE_COLUMNS + p]
                if bias != NULL:
                    whole += (<const int32_t *>tensor_data(bias))[filter + r]
                whole = requantize(whole, s.factors[filter + r])
                output[at] = <packable>clamp_sum(whole, s.out_zero, s.low, s.high)


cdef void pack(
    const State *s, const void *weights, int64_t first_tap, int64_t taps, int64_t group, int64_t first, int64_t count, void *rows
) noexcept nogil:
    """`pack_filters` for the element type of the weights."""
    if s.weights == FLOAT32:
        pack_filters(s, <const float *>weights, first_tap, taps, group, first, count, rows)
    elif s.weights == FLOAT64:
        pack_filters(s, <const double *>weights, first_tap, taps, group, first, count, rows)
    elif s.images == INT16:
        pack_wide_filters(s, <const int8_t *>weights, first_tap, taps, group, first, count, <double *>rows)
    elif s.weights == INT8:
        pack_filters(s, <const int8_t *>weights, first_tap, taps, group, first, count, rows)
    else:
        pack_filters(s, <const uint8_t *>weights, first_tap, taps, group, first, count, rows)


cdef inline int64_t taps_at_once(const State *s) noexcept nogil:
    """Taps of a window that are gathered and multiplied together: all, unless the sums are long."""
    cdef int64_t taps = s.at.kernel[0] * s.at.kernel[1]
    if taps * s.channels <= DEPTH_AT_ONCE:
        return taps
    return min(taps, max(<int64_t>1, DEPTH_AT_ONCE // s.channels))


cdef inline int64_t channels_at_once(const State *s) noexcept nogil:
    """And channels, of which one tap may have more."""
    return min(s.channels, <int64_t>DEPTH_AT_ONCE)


cdef int convolve_deep(
    const State *s, const dovetail_call *call, int64_t group, int64_t block, const packable *images, packable *output
) noexcept nogil:
    """Convolve a group's filters at one panel's pixels, by parts of the window.

    A part is some taps, or channels of one.
    """
    cdef double sums[64]    # TILE_ROWS x TILE_COLUMNS of the widest type
    cdef int64_t taps = s.at.kernel[0] * s.at.kernel[1], pixels = s.batch * s.at.out_size[0] * s.at.out_size[1]
    cdef int64_t first = block * TILE_COLUMNS, tile, row, rows, tap, n, depth, channel
    cdef int64_t weight_bytes = 8 if s.weights == FLOAT64 else 4 if s.weights == FLOAT32 else 1
    cdef const char *weights = <const char *>tensor_data(&call.inputs[1])
    cdef const packable *image
    cdef State part = s[0]      # as if the image had so many channels only
    cdef const dovetail_tensor *bias = &call.inputs[2] if s.biased else NULL
    cdef double *packed = <double *>call.workspace
    cdef double *panel = packed + taps_at_once(s) * channels_at_once(s) * TILE_ROWS
    for tile in range((s.filters + TILE_ROWS - 1) // TILE_ROWS):
        row, tap, channel = tile * TILE_ROWS, 0, 0
        rows = min(<int64_t>TILE_ROWS, s.filters - row)
        while tap < taps:
            if cancelled(call):
                return DOVETAIL_CANCELLED
            n, part.channels = min(taps_at_once(s), taps - tap), min(channels_at_once(s), s.channels - channel)
            depth = n * part.channels
            image = images + (group * s.channels + channel) * s.in_channel
            gather(&part, image, tap, n, first, pixels - first, panel)
            pack(&part, weights + channel * s.weight_channel * weight_bytes, tap, n, group, row, rows, packed)
            if packable is float or packable is double or packable is int16_t:
                product_double(depth, packed, panel, sums, tap > 0 or channel > 0)
            else:
                product_int32(depth, <uint32_t *>packed, <uint32_t *>panel, <uint32_t *>sums, tap > 0 or channel > 0)
            channel += part.channels
            if channel == s.channels:
                channel = 0
                tap += n
        store(s, sums, bias, group * s.filters + row, rows, first, min(<int64_t>TILE_COLUMNS, pixels - first), output)
    return DOVETAIL_OK


cdef int convolve_block(
    const State *s, const dovetail_call *call, int64_t group, int64_t block, const packable *images, packable *output
) noexcept nogil:
    """Convolve a group's filters at one block's pixels: as many panels as are gathered at once."""
    cdef double sums[64]    # TILE_ROWS x TILE_COLUMNS of the widest type
    cdef int64_t depth = depth_of(s), panels = panels_at_once(depth)
    cdef int64_t pixels = s.batch * s.at.out_size[0] * s.at.out_size[1], begin = block * panels * TILE_COLUMNS
    cdef int64_t tile, row, rows, first, j, taps = s.at.kernel[0] * s.at.kernel[1]
    cdef const dovetail_tensor *bias = &call.inputs[2] if s.biased else NULL
    # Counted in doubles, also where the elements are smaller.
    cdef double *packed = <double *>call.workspace
    cdef double *panel = packed + depth * TILE_ROWS
    panels = min(panels, (pixels - begin + TILE_COLUMNS - 1) // TILE_COLUMNS)
    for j in range(panels):
        first = begin + j * TILE_COLUMNS
        gather(s, images + group * s.channels * s.in_channel, 0, taps, first, pixels - first, panel + j * depth * TILE_COLUMNS)
    for tile in range((s.filters + TILE_ROWS - 1) // TILE_ROWS):
        if cancelled(call):
            return DOVETAIL_CANCELLED
        row = tile * TILE_ROWS
        rows = min(<int64_t>TILE_ROWS, s.filters - row)
        pack(s, tensor_data(&call.inputs[1]), 0, taps, group, row, rows, packed)
        for j in range(panels):
            first = begin + j * TILE_COLUMNS
            if packable is float or packable is double or packable is int16_t:
                product_double(depth, packed, panel + j * depth * TILE_COLUMNS, sums, False)
            else:
                product_int32(depth, <uint32_t *>packed, <uint32_t *>(panel + j * depth * TILE_COLUMNS), <uint32_t *>sums, False)
            store(s, sums, bias, group * s.filters + row, rows, first, min(<int64_t>TILE_COLUMNS, pixels - first), output)
    return DOVETAIL_OK


cdef int convolve(const State *s, const dovetail_call *call, const packable *images, packable *output) noexcept nogil:
    cdef int64_t span = panels_at_once(depth_of(s)) * TILE_COLUMNS
    cdef int64_t blocks = (s.batch * s.at.out_size[0] * s.at.out_size[1] + span - 1) // span
    cdef int64_t group, block
    cdef bint deep = depth_of(s) > DEPTH_AT_ONCE
    cdef int status
    if s.channels == 1 and s.groups > 1 and not s.transposed:
        return convolve_channels(s, call, images, output)
    for group in range(s.groups):
        for block in range(blocks):
            if deep:
                status = convolve_deep(s, call, group, block, images, output)
            else:
                status = convolve_block(s, call, group, block, images, output)
            if status != DOVETAIL_OK:
                return status
    return DOVETAIL_OK


cdef double filter_element(const State *s, const void *weights, int64_t filter, int64_t tap) noexcept nogil:
    """Return a weight of a one-channel group, less its zero point.

    `filter` counts all groups. An 8-bit weight is exact in double.
    """
    cdef int64_t at = filter // s.filters * s.weight_group + filter % s.filters * s.weight_filter + tap * s.weight_tap
    if s.weights == FLOAT32:
        return (<const float *>weights)[at]
    if s.weights == FLOAT64:
        return (<const double *>weights)[at]
    if s.weights == INT8:
        return (<const int8_t *>weights)[at] - s.weight_zeros[filter]
    return (<const uint8_t *>weights)[at] - s.weight_zeros[filter]


cdef void sum_row(
    const State *s, const packable *row, int64_t tap, int64_t first, int64_t count, double weight, void *sums
) noexcept nogil:
    """Add a weight times an input row to `count` outputs from column `first`.

    The row is as column `tap` of the filter sees it.
    """
    cdef int64_t p, shift = tap * s.at.dilation[1] - s.at.padding[1]
    # Outputs whose input column, p * stride + shift, lies in [0, width).
    cdef int64_t begin = max(<int64_t>0, (s.at.stride[1] - 1 - shift) // s.at.stride[1] - first) if shift < 0 else 0
    cdef int64_t last = s.at.in_size[1] - 1 - shift
    cdef int64_t end = min(count, last // s.at.stride[1] + 1 - first) if last >= 0 else 0
    for p in range(begin, end):
        if packable is float or packable is double:
            (<double *>sums)[p] += weight * <double>row[((first + p) * s.at.stride[1] + shift) * s.in_pixel]
        elif packable is int16_t:
            (<double *>sums)[p] += weight * (row[((first + p) * s.at.stride[1] + shift) * s.in_pixel] - s.in_zero)
        else:
            (<int32_t *>sums)[p] += <int32_t>weight * (row[((first + p) * s.at.stride[1] + shift) * s.in_pixel] - s.in_zero)


cdef void convolve_channel(
    const State *s, errand *run, int64_t image, int64_t y, int64_t filter, const packable *images, packable *output
) noexcept nogil:
    """One output row of one filter of a group of one channel."""
    cdef double sums[64]
    cdef const dovetail_call *call = run.call
    cdef int64_t tile, first, count, tap_y, tap_x, at
    cdef const dovetail_tensor *bias = &call.inputs[2] if s.biased else NULL
    for tile in range((s.at.out_size[1] + TILE_COLUMNS - 1) // TILE_COLUMNS):
        first = tile * TILE_COLUMNS
        count = min(<int64_t>TILE_COLUMNS, s.at.out_size[1] - first)
        memset(sums, 0, sizeof(sums))
        for tap_y in range(s.at.kernel[0]):
            at = read_position(s, 0, y, tap_y)
            if not go_on(run, s.at.kernel[1] * TILE_COLUMNS if at >= 0 else 1):
                return
            if at < 0:
                continue
            at = image * s.in_image + filter // s.filters * s.in_channel + at * s.at.in_size[1] * s.in_pixel
            for tap_x in range(s.at.kernel[1]):
                sum_row(
                    s, images + at, tap_x, first, count,
                    filter_element(s, tensor_data(&call.inputs[1]), filter, tap_y * s.at.kernel[1] + tap_x), sums,
                )
        store(s, sums, bias, filter, 1, (image * s.at.out_size[0] + y) * s.at.out_size[1] + first, count, output)


cdef int convolve_channels(const State *s, const dovetail_call *call, const packable *images, packable *output) noexcept nogil:
    """A convolution, not transposed, whose groups have one channel."""
    cdef int64_t image, y, filter
    cdef errand run = new_errand(call)
    for image in range(s.batch):
        for y in range(s.at.out_size[0]):
            for filter in range(s.groups * s.filters):
                convolve_channel(s, &run, image, y, filter, images, output)
                if run.code != DOVETAIL_OK:
                    return run.code
    return DOVETAIL_OK


cdef int execute(void *opaque, const dovetail_call *call) noexcept nogil:
    cdef const State *s = <const State *>opaque
    cdef void *images = tensor_data(&call.inputs[0])
    cdef void *output = tensor_data(&call.outputs[0])
    if s.images == FLOAT32:
        return convolve(s, call, <const float *>images, <float *>output)
    if s.images == FLOAT64:
        return convolve(s, call, <const double *>images, <double *>output)
    if s.images == INT8:
        return convolve(s, call, <const int8_t *>images, <int8_t *>output)
    if s.images == INT16:
        return convolve(s, call, <const int16_t *>images, <int16_t *>output)
    return convolve(s, call, <const uint8_t *>images, <uint8_t *>output)


cdef void fill_geometry(State *s, object layer) except *:
    """Sizes and strides, from the descriptor and the infos."""
    descriptor = layer.descriptor
    x, weights, y = layer.input_infos[0].sizes, layer.input_infos[1].sizes, layer.output_infos[0].sizes
    cdef bint nchw = descriptor.layout is DataLayout.NCHW
    cdef bint depthwise = isinstance(descriptor, DepthwiseConvolution2d)
    cdef int64_t channels, filters, taps
    cdef int spatial = 2 if nchw else 1
    channels, filters = (x[1], y[1]) if nchw else (x[3], y[3])
    s.biased = layer.input_infos[2] is not None if len(layer.inputs) > 2 else False
    s.narrow = s.images == INT16 and s.biased and layer.input_infos[2].dtype is DType.INT32
    s.transposed = isinstance(descriptor, TransposeConvolution2d)
    s.batch = x[0]
    s.groups = channels if depthwise else descriptor.groups
    s.channels, s.filters = channels // s.groups, filters // s.groups
    fill_windows(&s.at, descriptor, x, y, weights[spatial : spatial + 2], spatial)
    s.in_image, s.out_image = channels * s.at.in_size[0] * s.at.in_size[1], filters * s.at.out_size[0] * s.at.out_size[1]
    s.in_channel, s.in_pixel = s.at.in_size[0] * s.at.in_size[1] if nchw else 1, 1 if nchw else channels
    s.out_channel, s.out_pixel = s.at.out_size[0] * s.at.out_size[1] if nchw else 1, 1 if nchw else filters
    taps = s.at.kernel[0] * s.at.kernel[1]
    if s.transposed and nchw:       # [C, O / groups, h, w]
        s.weight_tap, s.weight_filter, s.weight_channel = 1, taps, s.filters * taps
        s.weight_group = s.channels * s.weight_channel
    elif nchw:                      # [O, C / groups, h, w]
        s.weight_tap, s.weight_channel, s.weight_filter = 1, taps, s.channels * taps
        s.weight_group = s.filters * s.weight_filter
    elif depthwise:                 # [1, h, w, O]
        s.weight_tap, s.weight_channel, s.weight_filter, s.weight_group = filters, 0, 1, s.filters
    else:                           # [O, h, w, C / groups]
        s.weight_tap, s.weight_channel, s.weight_filter = s.channels, 1, s.channels * taps
        s.weight_group = s.filters * s.weight_filter


cdef void fill_quantization(State *s, object layer, int64_t filters) except *:
    """Zero points, factors and clamps of a quantized layer; `filters` counts all groups."""
    descriptor = layer.descriptor
    x, weights = layer.input_infos[0].quantization, layer.input_infos[1].quantization
    info = layer.output_infos[0]
    cdef double out_scale = info.quantization.scale[0], in_scale = x.scale[0]
    cdef int64_t i, which
    s.in_zero, s.out_zero = x.zero_point[0], info.quantization.zero_point[0]
    s.low, s.high = clamp_range(
        descriptor.activation, descriptor.activation_alpha, descriptor.activation_beta, info.dtype, info.quantization
    )
    for i in range(filters):
        which = i if weights.is_per_axis else 0
        s.factors[i] = requantization_of(product_scale(in_scale, weights.scale[which], s.images == UINT8) / out_scale)
        s.weight_zeros[i] = weights.zero_point[which]


def create(layer, dtype):
    """Return the workload capsule; `dtype` is FLOAT32, FLOAT64, INT8, UINT8 or INT16."""
    cdef bint quantized = is_quantized(layer) or has_words(layer)
    cdef int64_t filters = layer.output_infos[0].sizes[layer.descriptor.layout.channel_axis]
    cdef size_t tail = filters * (sizeof(requantization) + sizeof(int32_t)) if quantized else 0
    capsule = new_workload(execute, sizeof(State) + tail)
    cdef State *s = <State *>state_of(capsule)
    s.images = element_of(dtype)
    s.weights = element_of(layer.input_infos[1].dtype) if quantized else s.images
    s.activation = fused_function(layer.descriptor)
    s.factors = <requantization *>(s + 1)
    s.weight_zeros = <int32_t *>(s.factors + filters)
    fill_geometry(s, layer)
    if quantized:
        fill_quantization(s, layer, filters)
    s.workspace = product_workspace(taps_at_once(s) * channels_at_once(s))
    workload_of(capsule).workspace = stated_workspace
    return capsule
