"""Normalize by batch, instance, group, layer or RMS: sets scaled by mean and variance, in double.

A set is what shares one mean and variance: a line of `lines.pxd`. Scale and offset are found by
decomposing an element's position in the set along `dims`, with `scale_strides` and `offset_strides`
(0 where a parameter is broadcast). The variance is the mean of squared differences, in a second
pass. Batch normalization is the case where mean and variance are given.
"""

from libc.math cimport sqrt
from libc.stdint cimport int64_t, uint16_t

from dovetail.abi cimport dovetail_call, dovetail_tensor, tensor_data
from dovetail_reference.workloads.elements cimport MAX_RANK, element_of, real
from dovetail_reference.workloads.half cimport float_of_half
from dovetail_reference.workloads.lines cimport lines, run_lines
from dovetail_reference.workloads.walking cimport errand, next_span, span
from dovetail_reference.workloads.workload cimport allow_in_place, new_workload, state_of

import math

from dovetail import DataLayout
from dovetail.layers import BatchNormalization, GroupNormalization, InstanceNormalization



cdef enum:
    BFLOAT_CODE = 4     # DLPack


cdef struct State:
    lines sets
    bint given              # mean and variance are inputs 3 and 4, indexed by the set
    bint center
    bint scaled             # input 1 is connected
    bint moved              # input 2 is connected
    double epsilon
    int64_t parameter_step  # from inner set to inner set, in elements of scale and offset
    int rank
    int64_t dims[MAX_RANK]
    int64_t scale_strides[MAX_RANK]
    int64_t offset_strides[MAX_RANK]


cdef inline double parameter(const dovetail_tensor *tensor, int64_t index) noexcept nogil:
    """An element of a tensor of floats, whose width may differ from the input's."""
    if tensor.dtype.bits == 64:
        return (<const double *>tensor_data(tensor))[index]
    if tensor.dtype.bits == 16:
        return float_of_half((<const uint16_t *>tensor_data(tensor))[index], tensor.dtype.code == BFLOAT_CODE)
    return (<const float *>tensor_data(tensor))[index]


cdef inline int64_t parameter_index(const State *s, const int64_t *strides, int64_t position) noexcept nogil:
    cdef int64_t index = 0
    cdef int axis
    for axis in range(s.rank - 1, -1, -1):
        index += position % s.dims[axis] * strides[axis]
        position //= s.dims[axis]
    return index


cdef void normalize_set(const void *opaque, int64_t which, const real *x, real *y, errand *run) noexcept nogil:
    """Normalize one set; x and y may be the same memory."""
    cdef const State *s = <const State *>opaque
    cdef const dovetail_call *call = run.call
    cdef int64_t i, size = s.sets.size, stride = s.sets.stride, first = which % s.sets.inner * s.parameter_step
    cdef span part = span(0, 0)
    cdef double mean = 0.0, variance = 0.0, difference, root, value
    if s.given:
        mean, variance = parameter(&call.inputs[3], first), parameter(&call.inputs[4], first)
    else:
        while s.center and next_span(run, &part, size):
            for i in range(part.begin, part.end):
                mean += x[i * stride]
        mean /= <double>size
        while next_span(run, &part, size):
            for i in range(part.begin, part.end):
                difference = x[i * stride] - mean
                variance += difference * difference
        variance /= <double>size
    root = sqrt(variance + s.epsilon)
    while next_span(run, &part, size):
        for i in range(part.begin, part.end):
            value = (x[i * stride] - mean) / root
            if s.scaled:
                value *= parameter(&call.inputs[1], first + parameter_index(s, s.scale_strides, i))
            if s.moved:
                value += parameter(&call.inputs[2], first + parameter_index(s, s.offset_strides, i))
            y[i * stride] = <real>value


cdef int execute(void *opaque, const dovetail_call *call) noexcept nogil:
    return run_lines(&(<const State *>opaque).sets, normalize_set[float], normalize_set[double], opaque, call)


cdef void fill_channels(State *s, tuple x, bint nchw, int64_t channels) except *:
    """One set per image and channel; scale and offset have one element per channel."""
    cdef int64_t elements = math.prod(x), images = x[0] if nchw or len(x) > 1 else 1
    s.sets.outer, s.sets.inner, s.parameter_step = images, channels, 1
    s.sets.size = elements // (images * channels) if images * channels else 0
    s.sets.outer_step = channels * s.sets.size
    s.sets.inner_step, s.sets.stride = s.sets.size if nchw else 1, 1 if nchw else channels


cdef void fill_groups(State *s, tuple x, int64_t groups) except *:
    """Make one set per image and channel group; scale and offset change by channel inside it."""
    cdef int64_t spatial = math.prod(x[2:])
    s.sets.outer, s.sets.inner = x[0], groups
    s.parameter_step = x[1] // groups
    s.sets.size = s.parameter_step * spatial
    s.sets.outer_step, s.sets.inner_step, s.sets.stride = groups * s.sets.size, s.sets.size, 1
    s.rank, s.dims[0], s.dims[1] = 2, s.parameter_step, spatial
    s.scale_strides[0] = s.offset_strides[0] = 1


cdef void broadcast_strides(int64_t *strides, tuple shape, int rank) except *:
    """Strides of a parameter that is broadcast, aligned at the right, to `rank` axes."""
    cdef int64_t step = 1
    cdef int axis, missing = rank - len(shape)
    for axis in range(len(shape) - 1, -1, -1):
        strides[missing + axis] = step if shape[axis] > 1 else 0
        step *= shape[axis]


cdef void fill_tail(State *s, object layer, tuple x) except *:
    """Make one set per index of axes before `axis`; scale and offset broadcast to the others."""
    cdef int axis, first = layer.descriptor.axis if layer.descriptor.axis >= 0 else layer.descriptor.axis + len(x)
    s.sets.outer, s.sets.inner, s.sets.size = math.prod(x[:first]), 1, math.prod(x[first:])
    s.sets.outer_step, s.sets.stride = s.sets.size, 1
    s.rank = len(x) - first
    for axis in range(s.rank):
        s.dims[axis] = x[first + axis]
    if s.scaled:
        broadcast_strides(s.scale_strides, layer.input_infos[1].sizes, s.rank)
    if s.moved:
        broadcast_strides(s.offset_strides, layer.input_infos[2].sizes, s.rank)


def create(layer, dtype):
    """Return the workload capsule; `dtype` is FLOAT32 or FLOAT64."""
    descriptor, x = layer.descriptor, layer.input_infos[0].sizes
    cdef bint nchw = getattr(descriptor, "layout", DataLayout.NCHW) is DataLayout.NCHW
    capsule = new_workload(execute, sizeof(State))
    cdef State *s = <State *>state_of(capsule)
    connected = [slot.source is not None for slot in layer.inputs] + [False, False]
    s.sets.element, s.epsilon = element_of(dtype), descriptor.epsilon
    s.center = getattr(descriptor, "center", True)
    s.scaled, s.moved = connected[1], connected[2]
    s.given = isinstance(descriptor, BatchNormalization)
    if isinstance(descriptor, (BatchNormalization, InstanceNormalization)):
        # A tensor of rank 1 has one channel in NCHW; in NHWC its elements are the channels.
        fill_channels(s, x, nchw, (x[1] if len(x) > 1 else 1) if nchw else x[len(x) - 1])
    elif isinstance(descriptor, GroupNormalization):
        fill_groups(s, x, descriptor.groups)
    else:
        fill_tail(s, layer, x)
    allow_in_place(capsule)
    return capsule
