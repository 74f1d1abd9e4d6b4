"""Resize along any axes.

NEAREST picks elements, of any type, through one table per axis. LINEAR and CUBIC are separable: one
pass in double for each axis that changes, rounded once at the end; integers to nearest, and
clamped. Positions and weights: `dovetail.layers.Resize`.
"""

from libc.math cimport rint, round
from libc.stdint cimport int64_t
from libc.stdlib cimport free, realloc

from dovetail.abi cimport dovetail_call, tensor_data
from dovetail_reference.workloads.blocks cimport REAL, domain_of, load_reals, store_reals
from dovetail_reference.workloads.elements cimport Element, element_of
from dovetail_reference.workloads.walking cimport BLOCK, errand, go_on, new_errand
from dovetail_reference.workloads.workload cimport allocate, new_workload, state_of, stated_workspace, workload_of

import math

import numpy as np

from dovetail import Support
from dovetail.ground.pieces import assembled
from dovetail.layers import ResizeMethod, ResizePrecision

from .movement import Copy, Relation, movement_workload, selection_workload
from .quantized import integer_range
from .strides import contiguous

_MAX_TAPS = 1 << 27             # of an axis: positions and weights of all are worked out beforehand
_MAX_TAPS_OF_RESULT = 1 << 22   # between two looks at the time


def supports(layer):
    """Refuse scales that fit no image, and sums that are too long: what claims cannot say."""
    descriptor, info, result = layer.descriptor, layer.inputs[0].info, layer.output.known_info
    if descriptor.sizes is None and descriptor.scales is None:
        return Support.no("attribute", "neither sizes nor scales are known", "sizes")
    scales = descriptor.axis_scales(info)
    if result.elements and not (len(scales) == info.rank and all(math.isfinite(scale) and scale > 0 for scale in scales)):
        return Support.no("attribute", f"scales {scales} are not positive numbers, one per axis", "scales")
    if descriptor.method is ResizeMethod.NEAREST or not result.elements:
        return Support.yes()
    if any(descriptor.reach(scale) > 4 * size + 4 for size, scale in zip(info.sizes, scales, strict=True)):
        return Support.no("attribute", f"scales {scales} do not fit {info.shape_text} and {result.shape_text}", "scales")
    for size, wanted, scale in zip(info.sizes, result.sizes, scales, strict=True):
        each = descriptor.most_taps(scale)
        if (size != wanted or scale != 1.0) and (each > _MAX_TAPS_OF_RESULT or each * wanted > _MAX_TAPS):
            reason = f"{wanted} weighted sums of {each} elements each are too many: the weights are worked out beforehand"
            return Support.no("shape", reason, "antialias")
    return Support.yes()


def _nearest(descriptor, size, wanted, scale):
    """Return the input position of every output position."""

    def part(region):
        results = range(wanted) if region == (...,) else range(region[0].start, region[0].stop)
        return descriptor.nearest(descriptor.positions(size, wanted, scale, results), size)

    return assembled((wanted,), np.int64, part)


cdef struct tap_row:
    int64_t first       # index of its first tap
    int64_t count

cdef struct tap:
    int64_t position
    double weight

cdef struct axis_pass:
    int64_t outer
    int64_t size
    int64_t wanted
    int64_t inner
    tap_row *rows       # [wanted]
    tap *taps

cdef struct resize_state:
    size_t workspace
    Element kind
    int64_t itemsize
    int64_t elements    # of the input
    int64_t results
    int64_t largest     # elements of the largest tensor between two passes
    bint whole          # integers: round and clamp
    bint away           # round ties away from zero, else to even
    double low
    double high
    int64_t count
    axis_pass *passes


cdef void release(void *state) noexcept nogil:
    cdef resize_state *self = <resize_state *>state
    cdef int64_t i
    if self.passes != NULL:
        for i in range(self.count):
            free(self.passes[i].rows)
            free(self.passes[i].taps)
    free(self.passes)
    free(self)


cdef void run_pass(const axis_pass *self, const double *source, double *target, errand *run) noexcept nogil:
    cdef const tap_row *row
    cdef const tap *one
    cdef const double *line
    cdef int64_t o, j, k, i
    for o in range(self.outer):
        for j in range(self.wanted):
            row = &self.rows[j]
            if not go_on(run, self.inner * (row.count + 1)):
                return
            for i in range(self.inner):
                target[i] = 0.0
            for k in range(row.first, row.first + row.count):
                one = &self.taps[k]
                line = source + (o * self.size + one.position) * self.inner
                for i in range(self.inner):
                    target[i] += one.weight * line[i]
            target += self.inner


cdef int execute(void *state, const dovetail_call *call) noexcept nogil:
    cdef resize_state *self = <resize_state *>state
    cdef double *here = <double *>call.workspace
    cdef double *there = here + self.largest
    cdef double *swap
    cdef char *at = <char *>tensor_data(&call.inputs[0])
    cdef int64_t i, j, n, done = 0
    cdef errand run = new_errand(call)
    while done < self.elements and go_on(&run, BLOCK):
        n = min(<int64_t>BLOCK, self.elements - done)
        load_reals(self.kind, at + done * self.itemsize, self.itemsize, n, here + done)
        done += n
    for i in range(self.count):
        run_pass(&self.passes[i], here, there, &run)
        swap = here
        here = there
        there = swap
    at, done = <char *>tensor_data(&call.outputs[0]), 0
    while done < self.results and go_on(&run, BLOCK):
        n = min(<int64_t>BLOCK, self.results - done)
        if self.whole:
            for j in range(done, done + n):
                here[j] = min(max(round(here[j]) if self.away else rint(here[j]), self.low), self.high)
        store_reals(self.kind, here + done, n, at + done * self.itemsize, self.itemsize)
        done += n
    return run.code


cdef int plan_pass(axis_pass *one, object sizes, object axis, object wanted, object parts) except -1:
    """Fill in the pass along one axis from these sizes to `wanted`; `parts` are its taps."""
    cdef const int64_t[::1] first, position
    cdef const double[::1] weight
    cdef int64_t i, result = 0, used = 0, room = 0
    cdef tap *moved
    one.outer, one.size, one.wanted = math.prod(sizes[:axis]), sizes[axis], wanted
    one.inner = math.prod(sizes[axis + 1 :])
    one.rows = <tap_row *>allocate(one.wanted, sizeof(tap_row))
    for part in parts:
        first, position, weight = (np.ascontiguousarray(array) for array in part)
        if used + position.shape[0] > room:
            room = used + position.shape[0] if room == 0 else max(2 * room, used + position.shape[0])
            moved = <tap *>realloc(one.taps, room * sizeof(tap))
            if moved == NULL:
                raise MemoryError()
            one.taps = moved
        for i in range(first.shape[0] - 1):
            one.rows[result].first, one.rows[result].count = used + first[i], first[i + 1] - first[i]
            result += 1
        for i in range(position.shape[0]):
            one.taps[used + i].position, one.taps[used + i].weight = position[i], weight[i]
        used += position.shape[0]
    return 0


def create(layer, dtype):
    """Make the workload capsule."""
    descriptor, info, result = layer.descriptor, layer.inputs[0].info, layer.output.known_info
    itemsize, scales = info.dtype.itemsize, descriptor.axis_scales(info)
    strides = contiguous(info.sizes, itemsize)
    axes = list(zip(info.sizes, result.sizes, scales, strict=True)) if result.elements else []
    changed = [axis for axis, (size, wanted, scale) in enumerate(axes) if size != wanted or scale != 1.0]
    if not changed:
        same = Copy(shape=result.sizes, source_strides=strides, target_strides=strides, relation=Relation.VIEW)
        return movement_workload([same] if result.elements else [], itemsize)
    if descriptor.method is ResizeMethod.NEAREST:
        return selection_workload([_nearest(descriptor, *axis) for axis in axes], strides, itemsize)
    return _create_separable(descriptor, info, result, axes, changed)


cdef object _create_separable(object descriptor, object info, object result, object axes, object changed):
    capsule = new_workload(execute, sizeof(resize_state), release)
    cdef resize_state *self = <resize_state *>state_of(capsule)
    sizes = list(info.sizes)
    self.kind, self.itemsize = element_of(info.dtype), info.dtype.itemsize
    self.elements, self.results = info.elements, result.elements
    self.whole = domain_of(self.kind) != REAL
    self.away = descriptor.precision is not ResizePrecision.EXACT
    if self.whole:
        self.low, self.high = integer_range(info.dtype)
    self.largest = info.elements
    self.passes = <axis_pass *>allocate(len(changed), sizeof(axis_pass))
    for axis in changed:
        self.count += 1
        plan_pass(&self.passes[self.count - 1], sizes, axis, result.sizes[axis], descriptor.taps(*axes[axis]))
        sizes[axis] = result.sizes[axis]
        self.largest = max(self.largest, <int64_t>math.prod(sizes))
    self.workspace = 2 * <size_t>self.largest * sizeof(double)
    workload_of(capsule).workspace = stated_workspace
    return capsule
