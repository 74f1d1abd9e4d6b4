"""Batch, instance, group, layer and RMS normalization: all scale sets of elements by a mean and a variance, in double.

A set is what shares one mean and variance. Its elements lie `stride` apart; scale and offset are found by decomposing an
element's position in the set along `dims`, with `scale_strides` and `offset_strides` (0 where a parameter is broadcast). The
variance is the mean of squared differences, in a second pass. Batch normalization is the case where mean and variance are
given.
"""

from libc.math cimport sqrt
from libc.stdint cimport int64_t, uint16_t

from dovetail.abi cimport (
    DOVETAIL_ALIAS_IN_PLACE,
    DOVETAIL_OK,
    dovetail_alias,
    dovetail_call,
    dovetail_tensor,
    dovetail_workload,
    tensor_data,
    workload_capsule,
)
from dovetail_reference.workloads.elements cimport (
    FLOAT32,
    MAX_RANK,
    Element,
    allocate_state,
    element_of,
    free_state,
    real,
)
from dovetail_reference.workloads.walking cimport errand, span_end

import math

from dovetail import DataLayout
from dovetail.layers import BatchNormalization, GroupNormalization, InstanceNormalization



cdef extern from "half.h" nogil:
    float float_of_float16(uint16_t half)
    float float_of_bfloat16(uint16_t half)


cdef enum:
    BFLOAT_CODE = 4     # DLPack


cdef struct State:
    Element element
    bint given              # mean and variance are inputs 3 and 4, indexed by the set
    bint center
    bint scaled             # input 1 is connected
    bint moved              # input 2 is connected
    double epsilon
    int64_t sets
    int64_t inner_sets      # sets per step of `outer_step`
    int64_t outer_step      # from set to set, in elements
    int64_t inner_step
    int64_t parameter_step  # from inner set to inner set, in elements of scale and offset
    int64_t count           # elements of a set
    int64_t stride
    int rank
    int64_t dims[MAX_RANK]
    int64_t scale_strides[MAX_RANK]
    int64_t offset_strides[MAX_RANK]
    dovetail_alias alias


cdef inline double parameter(const dovetail_tensor *tensor, int64_t index) noexcept nogil:
    """An element of a tensor of floats, whose width may differ from the input's."""
    if tensor.dtype.bits == 64:
        return (<const double *>tensor_data(tensor))[index]
    if tensor.dtype.bits == 16:
        if tensor.dtype.code == BFLOAT_CODE:
            return float_of_bfloat16((<const uint16_t *>tensor_data(tensor))[index])
        return float_of_float16((<const uint16_t *>tensor_data(tensor))[index])
    return (<const float *>tensor_data(tensor))[index]


cdef inline int64_t parameter_index(const State *s, const int64_t *strides, int64_t position) noexcept nogil:
    cdef int64_t index = 0
    cdef int axis
    for axis in range(s.rank - 1, -1, -1):
        index += position % s.dims[axis] * strides[axis]
        position //= s.dims[axis]
    return index


cdef void normalize_set(const State *s, errand *run, int64_t which, const real *x, real *y) noexcept nogil:
    """Normalize one set; x and y may be the same memory."""
    cdef const dovetail_call *call = run.call
    cdef int64_t i, first = which % s.inner_sets * s.parameter_step, begin = 0, end
    cdef double mean = 0.0, variance = 0.0, difference, root, value
    if s.given:
        mean, variance = parameter(&call.inputs[3], first), parameter(&call.inputs[4], first)
    else:
        while s.center and begin < s.count:
            end = span_end(run, begin, s.count)
            if end == begin:
                return
            for i in range(begin, end):
                mean += x[i * s.stride]
            begin = end
        mean /= <double>s.count
        begin = 0
        while begin < s.count:
            end = span_end(run, begin, s.count)
            if end == begin:
                return
            for i in range(begin, end):
                difference = x[i * s.stride] - mean
                variance += difference * difference
            begin = end
        variance /= <double>s.count
    root = sqrt(variance + s.epsilon)
    begin = 0
    while begin < s.count:
        end = span_end(run, begin, s.count)
        if end == begin:
            return
        for i in range(begin, end):
            value = (x[i * s.stride] - mean) / root
            if s.scaled:
                value *= parameter(&call.inputs[1], first + parameter_index(s, s.scale_strides, i))
            if s.moved:
                value += parameter(&call.inputs[2], first + parameter_index(s, s.offset_strides, i))
            y[i * s.stride] = <real>value
        begin = end


cdef int normalize(const State *s, const dovetail_call *call, const real *x, real *y) noexcept nogil:
    cdef int64_t which, at
    cdef errand run
    run.call, run.work, run.code = call, 1 << 15, DOVETAIL_OK  # look at once
    if s.count == 0:
        return DOVETAIL_OK
    for which in range(s.sets):
        at = which // s.inner_sets * s.outer_step + which % s.inner_sets * s.inner_step
        normalize_set(s, &run, which, x + at, y + at)
        if run.code != DOVETAIL_OK:
            return run.code
    return DOVETAIL_OK


cdef int execute(void *opaque, const dovetail_call *call) noexcept nogil:
    cdef const State *s = <const State *>opaque
    cdef void *x = tensor_data(&call.inputs[0])
    cdef void *y = tensor_data(&call.outputs[0])
    if s.element == FLOAT32:
        return normalize(s, call, <const float *>x, <float *>y)
    return normalize(s, call, <const double *>x, <double *>y)


cdef void fill_channels(State *s, tuple x, bint nchw, int64_t channels) except *:
    """One set per image and channel; scale and offset have one element per channel."""
    cdef int64_t elements = math.prod(x)
    s.sets = x[0] * channels if nchw or len(x) > 1 else channels
    s.inner_sets, s.parameter_step = channels, 1
    s.count = elements // s.sets if s.sets else 0
    s.outer_step = channels * s.count
    s.inner_step, s.stride = s.count if nchw else 1, 1 if nchw else channels


cdef void fill_groups(State *s, tuple x, int64_t groups) except *:
    """One set per image and group of channels; scale and offset change from channel to channel inside a set."""
    cdef int64_t spatial = math.prod(x[2:])
    s.sets, s.inner_sets = x[0] * groups, groups
    s.parameter_step = x[1] // groups
    s.count = s.parameter_step * spatial
    s.outer_step, s.inner_step, s.stride = groups * s.count, s.count, 1
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
    """One set per index of the axes before `axis`; scale and offset are broadcast to the axes from there on."""
    cdef int axis, first = layer.descriptor.axis if layer.descriptor.axis >= 0 else layer.descriptor.axis + len(x)
    s.sets, s.inner_sets, s.count = math.prod(x[:first]), 1, math.prod(x[first:])
    s.outer_step, s.stride = s.count, 1
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
    cdef dovetail_workload *made = NULL
    cdef State *s = <State *>allocate_state(sizeof(State))
    connected = [slot.source is not None for slot in layer.inputs] + [False, False]
    try:
        s.element, s.epsilon = element_of(dtype), descriptor.epsilon
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
        s.alias.relation = DOVETAIL_ALIAS_IN_PLACE
        capsule = workload_capsule(execute, s, free_state, &made)
    except BaseException:
        free_state(s)
        raise
    made.aliases, made.n_aliases = &s.alias, 1
    return capsule
