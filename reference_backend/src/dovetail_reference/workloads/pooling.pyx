"""Pooling over windows, and over all of an image (one window as large as the image).

Rules
    Maximum: padding never wins; NaN wins. A window with no element inside the image gives the least
    value of the type.
    Average: over the elements inside the image or, with `count_padding`, over all positions inside
    the padded image, which leaves out what a last, partial window (`ceil_mode`) reaches beyond it
    (PyTorch; ONNX AveragePool). A window of nothing gives 0; the mean of an image without pixels is
    NaN (NumPy).
    Average of integers: rounded to nearest, halves away from zero; padding counts as the zero point
    (tensorflow/lite/kernels/internal/reference/integer_ops/pooling.h).
    Lp: (sum |x|^p)^(1/p), summed in double.
"""

from libc.math cimport INFINITY, NAN, fabs, pow, sqrt
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from dovetail.abi cimport dovetail_call, tensor_data
from dovetail_reference.workloads.elements cimport FLOAT32, FLOAT64, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32
from dovetail_reference.workloads.elements cimport Element, element_of, number
from dovetail_reference.workloads.walking cimport errand, go_on, new_errand
from dovetail_reference.workloads.windows cimport fill_windows, windows
from dovetail_reference.workloads.workload cimport new_workload, state_of

import math

from dovetail import DataLayout
from dovetail.layers import GlobalPooling, PoolingFunction

from .quantized import integer_range, is_quantized

cdef enum Function:
    MAXIMUM
    AVERAGE
    NORM


cdef struct State:
    Element element
    Function function
    bint is_global
    bint count_padding
    int p
    int64_t pad_value       # of integers: the zero point
    int64_t minimum           # of integers: what a maximum starts from
    int64_t batch
    int64_t channels
    windows at
    int64_t padded_end[2]   # where the padding after the image ends, in rows or columns of the image
    int64_t pixel_stride    # in elements, of input and output
    int64_t in_channel
    int64_t out_channel


cdef struct Window:
    # Taps [begin, end) of each axis lie inside the image; `counted` taps lie inside the padded
    # image.
    int64_t origin[2]
    int64_t begin[2]
    int64_t end[2]
    int64_t counted[2]


cdef inline int64_t taps_before(const State *s, int axis, int64_t origin, int64_t end) noexcept nogil:
    """How many taps of a window that begins at `origin` lie before a row (or column)."""
    return min((end - 1 - origin) // s.at.dilation[axis] + 1, s.at.kernel[axis]) if origin < end else 0


cdef void place_axis(const State *s, int axis, int64_t position, Window *w) noexcept nogil:
    cdef int64_t origin = position * s.at.stride[axis] - s.at.padding[axis]
    w.origin[axis] = origin
    w.begin[axis], w.end[axis] = taps_before(s, axis, origin, 0), taps_before(s, axis, origin, s.at.in_size[axis])
    w.counted[axis] = taps_before(s, axis, origin, s.padded_end[axis])


cdef inline int64_t tap_offset(const State *s, const Window *w, int64_t tap_y, int64_t tap_x) noexcept nogil:
    return (
        (w.origin[0] + tap_y * s.at.dilation[0]) * s.at.in_size[1] + w.origin[1] + tap_x * s.at.dilation[1]
    ) * s.pixel_stride


# Some taps of one row of a window: as many as are treated between two looks at is_cancelled.
cdef struct Taps:
    int64_t row
    int64_t begin
    int64_t end


cdef inline Taps before_taps(const Window *w) noexcept nogil:
    """What stands before the first taps of a window."""
    cdef Taps taps
    taps.row, taps.begin, taps.end = w.begin[0] - 1, w.end[1], w.end[1]
    return taps


cdef inline bint next_taps(const Window *w, errand *run, Taps *taps) noexcept nogil:
    """Move on to the next taps, row by row; False after the last, and once the run should end."""
    taps.begin = taps.end
    if taps.begin >= w.end[1]:
        taps.row += 1
        taps.begin = w.begin[1]
    if taps.row >= w.end[0] or taps.begin >= w.end[1]:
        return False
    taps.end = min(w.end[1], taps.begin + (1 << 15))
    return go_on(run, taps.end - taps.begin)


cdef number maximum(const State *s, const Window *w, const number *plane, errand *run) noexcept nogil:
    cdef int64_t x
    cdef Taps taps = before_taps(w)
    cdef number value, best
    if number is float or number is double:
        best = -INFINITY
    else:
        best = <number>s.minimum
    while next_taps(w, run, &taps):
        for x in range(taps.begin, taps.end):
            value = plane[tap_offset(s, w, taps.row, x)]
            if value > best or value != value:
                best = value
    return best


cdef number average(const State *s, const Window *w, const number *plane, errand *run) noexcept nogil:
    cdef int64_t x, whole = 0
    cdef int64_t inside = max(<int64_t>0, w.end[0] - w.begin[0]) * max(<int64_t>0, w.end[1] - w.begin[1])
    cdef int64_t count = w.counted[0] * w.counted[1] if s.count_padding else inside
    cdef Taps taps = before_taps(w)
    cdef double total = 0.0
    while next_taps(w, run, &taps):
        for x in range(taps.begin, taps.end):
            if number is float or number is double:
                total += plane[tap_offset(s, w, taps.row, x)]
            else:
                whole += <int64_t>plane[tap_offset(s, w, taps.row, x)]
    if count == 0:
        if number is float or number is double:
            return NAN if s.is_global else 0
        return 0
    if number is float or number is double:
        return <number>(total / <double>count)
    else:
        whole += (count - inside) * s.pad_value
        return <number>((whole + count // 2) // count if whole > 0 else (whole - count // 2) // count)


cdef number norm(const State *s, const Window *w, const number *plane, errand *run) noexcept nogil:
    cdef int64_t x
    cdef Taps taps = before_taps(w)
    cdef double total = 0.0, value
    while next_taps(w, run, &taps):
        for x in range(taps.begin, taps.end):
            value = fabs(<double>plane[tap_offset(s, w, taps.row, x)])
            total += value if s.p == 1 else value * value if s.p == 2 else pow(value, s.p)
    return <number>(total if s.p == 1 else sqrt(total) if s.p == 2 else pow(total, 1.0 / s.p))


cdef int pool(const State *s, const dovetail_call *call, const number *unused) noexcept nogil:
    """Pool tensors of the type that `unused` points to."""
    cdef const number *images = <const number *>tensor_data(&call.inputs[0])
    cdef number *output = <number *>tensor_data(&call.outputs[0])
    cdef int64_t n, c, y, x
    cdef int64_t in_image = s.channels * s.at.in_size[0] * s.at.in_size[1]
    cdef int64_t out_image = s.channels * s.at.out_size[0] * s.at.out_size[1]
    cdef const number *plane
    cdef number *target
    cdef Window window
    cdef errand run = new_errand(call)
    for n in range(s.batch):
        for y in range(s.at.out_size[0]):
            place_axis(s, 0, y, &window)
            for x in range(s.at.out_size[1]):
                place_axis(s, 1, x, &window)
                for c in range(s.channels):
                    if not go_on(&run, 16):
                        return run.code
                    plane = images + n * in_image + c * s.in_channel
                    target = output + n * out_image + c * s.out_channel + (y * s.at.out_size[1] + x) * s.pixel_stride
                    if s.function == MAXIMUM:
                        target[0] = maximum(s, &window, plane, &run)
                    elif s.function == AVERAGE:
                        target[0] = average(s, &window, plane, &run)
                    else:
                        target[0] = norm(s, &window, plane, &run)
    return run.code


cdef int execute(void *opaque, const dovetail_call *call) noexcept nogil:
    cdef const State *s = <const State *>opaque
    if s.element == FLOAT32: return pool(s, call, <const float *>NULL)
    if s.element == FLOAT64: return pool(s, call, <const double *>NULL)
    if s.element == INT8: return pool(s, call, <const int8_t *>NULL)
    if s.element == INT16: return pool(s, call, <const int16_t *>NULL)
    if s.element == INT32: return pool(s, call, <const int32_t *>NULL)
    if s.element == INT64: return pool(s, call, <const int64_t *>NULL)
    if s.element == UINT8: return pool(s, call, <const uint8_t *>NULL)
    if s.element == UINT16: return pool(s, call, <const uint16_t *>NULL)
    if s.element == UINT32: return pool(s, call, <const uint32_t *>NULL)
    return pool(s, call, <const uint64_t *>NULL)


cdef void fill_global(State *s, tuple x, bint nchw) except *:
    """One window over all spatial axes, seen as one row."""
    cdef int64_t area = math.prod(x[2:]) if nchw else math.prod(x[1 : len(x) - 1])
    s.batch, s.channels = x[0], x[1] if nchw else x[len(x) - 1]
    s.at.in_size[0] = s.at.out_size[0] = s.at.out_size[1] = s.at.kernel[0] = 1
    s.at.in_size[1] = s.at.kernel[1] = area
    for axis in range(2):
        s.at.stride[axis] = s.at.dilation[axis] = 1
        s.padded_end[axis] = s.at.in_size[axis]


cdef void fill_pooling(State *s, object descriptor, tuple x, tuple y, bint nchw) except *:
    cdef int axis, spatial = 2 if nchw else 1
    s.batch, s.channels = x[0], x[1] if nchw else x[3]
    s.count_padding = descriptor.count_padding
    fill_windows(&s.at, descriptor, x, y, descriptor.size, spatial)
    for axis in range(2):
        s.padded_end[axis] = s.at.in_size[axis] + <int64_t>descriptor.padding[axis + 2]


cdef Function function_of(object function) except *:
    if function == PoolingFunction.MAX:
        return MAXIMUM
    return AVERAGE if function == PoolingFunction.AVERAGE else NORM


def create(layer, dtype):
    """Return the workload capsule; `dtype` is FLOAT32, FLOAT64 or an integer type."""
    descriptor = layer.descriptor
    x, y = layer.input_infos[0], layer.output_infos[0]
    cdef bint nchw = descriptor.layout is DataLayout.NCHW
    capsule = new_workload(execute, sizeof(State))
    cdef State *s = <State *>state_of(capsule)
    s.element = element_of(dtype)
    s.function = function_of(descriptor.function)
    s.p = descriptor.p
    s.pad_value = x.quantization.zero_point[0] if x.quantization is not None else 0
    s.minimum = integer_range(dtype)[0] if dtype.is_integer else 0
    if isinstance(descriptor, GlobalPooling):
        s.is_global = True
        fill_global(s, x.sizes, nchw)
    else:
        fill_pooling(s, descriptor, x.sizes, y.sizes, nchw)
    s.pixel_stride = 1 if nchw else s.channels
    s.in_channel = s.at.in_size[0] * s.at.in_size[1] if nchw else 1
    s.out_channel = s.at.out_size[0] * s.at.out_size[1] if nchw else 1
    return capsule
