"""Pad every element type in every mode; the position alone determines the element, with no table.

A row of the result is a few runs: of the fill, of one element, or of elements of the input forwards
or backwards.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from dovetail.abi cimport DOVETAIL_OK, dovetail_call, tensor_data
from dovetail_reference.workloads.elements cimport copy_elements
from dovetail_reference.workloads.walking cimport MAX_RANK, errand, go_on, new_errand
from dovetail_reference.workloads.workload cimport new_workload, state_of

from dovetail.layers import PadMode

cdef enum mode:
    CONSTANT
    EDGE
    REFLECT
    SYMMETRIC
    WRAP

cdef enum:
    CHUNK = 1 << 14     # elements between two looks at is_cancelled

_MODES = {
    PadMode.CONSTANT: CONSTANT,
    PadMode.EDGE: EDGE,
    PadMode.REFLECT: REFLECT,
    PadMode.SYMMETRIC: SYMMETRIC,
    PadMode.WRAP: WRAP,
}

cdef struct padded_axis:
    int64_t first       # input position of the first element of the result; may lie outside
    int64_t count       # of the result
    int64_t size        # of the input
    int64_t stride      # bytes, of the input

# Elements of a row that are found in one way.
cdef struct piece:
    int64_t position    # in the input, of the first one; -1 for the fill
    int64_t step        # to the position of the next: 1, 0, or -1
    int64_t count

cdef struct pad_state:
    mode how
    int32_t outer       # axes outside the row
    int64_t rows
    int64_t itemsize
    padded_axis axes[MAX_RANK]
    uint8_t fill[8]


cdef piece piece_at(mode how, const padded_axis *axis, int64_t index) noexcept nogil:
    """Return the run that begins at an index of the result; it may be longer than the result."""
    cdef int64_t at = axis.first + index, size = axis.size, period, turn, rest = axis.count - index
    cdef piece found
    if 0 <= at < size:
        found.position, found.step, found.count = at, 1, size - at
    elif how == CONSTANT or size == 0:
        found.position, found.step, found.count = -1, 0, -at if at < 0 and size else rest
    elif how == EDGE or size == 1:
        found.position, found.step, found.count = 0 if at < 0 else size - 1, 0, -at if at < 0 else rest
    else:
        period = size if how == WRAP else 2 * size if how == SYMMETRIC else 2 * size - 2
        turn = at % period      # with the sign of `at`, as in C
        turn += period if turn < 0 else 0
        if turn < size:
            found.position, found.step, found.count = turn, 1, size - turn
        else:
            found.position, found.step = (2 * size - 1 if how == SYMMETRIC else 2 * size - 2) - turn, -1
            found.count = period - turn
    return found


cdef char *pad_row(const pad_state *self, const char *source, char *target, errand *run) noexcept nogil:
    """Write one row; a source of NULL stands for the fill. Returns where the next row begins."""
    cdef const padded_axis *axis = &self.axes[self.outer]
    cdef int64_t index = 0, n
    cdef piece found
    while index < axis.count:
        found.position, found.step, found.count = -1, 0, axis.count - index
        if source != NULL:
            found = piece_at(self.how, axis, index)
        n = min(min(found.count, axis.count - index), <int64_t>CHUNK)
        if not go_on(run, n + 8):
            return target
        if found.position < 0:
            copy_elements(target, self.itemsize, <const char *>self.fill, 0, self.itemsize, n)
        else:
            copy_elements(
                target, self.itemsize, source + found.position * axis.stride, found.step * axis.stride, self.itemsize, n
            )
        target += n * self.itemsize
        index += n
    return target


cdef int execute(void *state, const dovetail_call *call) noexcept nogil:
    cdef const pad_state *self = <const pad_state *>state
    cdef const char *source = <const char *>tensor_data(&call.inputs[0])
    cdef char *target = <char *>tensor_data(&call.outputs[0])
    cdef int64_t index[MAX_RANK]
    cdef int64_t position[MAX_RANK]     # of the input, by axis; -1: outside
    cdef int64_t row, offset = 0, outside = 0
    cdef int32_t axis
    cdef errand run = new_errand(call)
    for axis in range(self.outer):
        index[axis] = 0
        position[axis] = piece_at(self.how, &self.axes[axis], 0).position if self.rows else 0
        outside += position[axis] < 0
        offset += max(position[axis], 0) * self.axes[axis].stride
    for row in range(self.rows):
        target = pad_row(self, NULL if outside else source + offset, target, &run)
        if run.code != DOVETAIL_OK:
            return run.code
        axis = self.outer - 1
        while axis >= 0:
            index[axis] += 1
            if index[axis] == self.axes[axis].count:
                index[axis] = 0
            outside -= position[axis] < 0
            offset -= max(position[axis], 0) * self.axes[axis].stride
            position[axis] = piece_at(self.how, &self.axes[axis], index[axis]).position
            outside += position[axis] < 0
            offset += max(position[axis], 0) * self.axes[axis].stride
            if index[axis]:
                break
            axis -= 1
    return run.code


def pad_workload(how, before, sizes, wanted, strides, int64_t itemsize, fill):
    """Make the workload capsule of a pad.

    Args:
        how: The `PadMode`.
        before: Elements that stand before the input, per axis; negative ones are cut off.
        sizes, wanted: Of the input and of the result.
        strides: Bytes, per axis of the input.
        itemsize: Bytes of an element.
        fill: At least `itemsize` bytes.
    """
    capsule = new_workload(execute, sizeof(pad_state))
    cdef pad_state *self = <pad_state *>state_of(capsule)
    cdef const uint8_t *pattern
    cdef padded_axis *axis
    cdef int32_t number
    axes = list(zip(before, sizes, wanted, strides, strict=True)) or [(0, 1, 1, itemsize)]
    self.how, self.itemsize, self.outer, self.rows = <mode><int>_MODES[how], itemsize, len(axes) - 1, 1
    empty = 0 in wanted     # beside a size of zero the others may be of any magnitude
    for number, (first, size, count, stride) in enumerate(axes):
        axis = &self.axes[number]
        axis.first, axis.size, axis.count, axis.stride = -first, size, 0 if empty else count, stride
        if number < self.outer:
            self.rows *= axis.count
    given = bytes(fill)
    pattern = given
    memcpy(self.fill, pattern, itemsize)
    return capsule
