"""ArgMinMax and TopK, for every element type.

Every element becomes a 64-bit score that orders as the elements do; -0 and 0 are equal. A NaN
counts as larger than every number in TopK, and as the extreme, largest or smallest, in ArgMinMax
(NumPy).
"""

from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

from dovetail.abi cimport DOVETAIL_OK, dovetail_call
from dovetail_reference.workloads.blocks cimport REAL, SIGNED, domain_of, load_reals, load_wholes, store_wholes
from dovetail_reference.workloads.elements cimport INT64, Element, element_of
from dovetail_reference.workloads.walking cimport BLOCK, errand, go_on, plan_walk, run_errand, walk
from dovetail_reference.workloads.workload cimport new_workload, state_of, stated_workspace, workload_of

from dovetail.layers import ArgFunction, TopK

from .strides import contiguous, without


def create(layer, dtype):
    """Make the workload capsule."""
    if isinstance(layer.descriptor, TopK):
        return _create_top_k(layer.descriptor, layer.inputs[0].info, layer.output_infos[0])
    return _create_arg(layer.descriptor, layer.inputs[0].info, layer.output.known_info)


cdef void load_scores(
    Element kind, bint smallest, bint nan_first, const char *at, int64_t step, int64_t n, uint64_t *scores
) noexcept nogil:
    """Read n elements as scores: the higher the better."""
    cdef double reals[BLOCK]
    cdef int64_t i
    cdef uint64_t sign = <uint64_t>1 << 63, bits
    if domain_of(kind) == REAL:
        load_reals(kind, at, step, n, reals)
        for i in range(n):
            reals[i] += 0.0     # -0 becomes 0
            memcpy(&bits, &reals[i], sizeof(bits))
            scores[i] = ~bits if bits & sign else bits | sign
            if reals[i] != reals[i]:
                scores[i] = ~<uint64_t>0 if not (smallest and nan_first) else 0
    else:
        load_wholes(kind, at, step, n, <int64_t *>scores)
        if domain_of(kind) == SIGNED:
            for i in range(n):
                scores[i] ^= sign
    if smallest:
        for i in range(n):
            scores[i] = ~scores[i]


# -- position of the extreme -----------------------------------------------------------------------


cdef struct arg_state:
    walk lines          # operands: input, output
    Element kind
    Element target
    bint smallest
    bint last
    int64_t length
    int64_t step


cdef void arg_row(char **at, const int64_t *steps, int64_t n, void *arg) noexcept nogil:
    cdef errand *run = <errand *>arg
    cdef arg_state *self = <arg_state *>run.state
    cdef uint64_t scores[BLOCK]
    cdef uint64_t best = 0
    cdef int64_t i, j, done, count, position
    for i in range(n):
        done, position = 0, -1
        while done < self.length:
            count = min(<int64_t>BLOCK, self.length - done)
            if not go_on(run, count):
                return
            load_scores(self.kind, self.smallest, True, at[0] + i * steps[0] + done * self.step, self.step, count, scores)
            for j in range(count):
                if position < 0 or scores[j] > best or (self.last and scores[j] == best):
                    best, position = scores[j], done + j
            done += count
        store_wholes(self.target, &position, False, 1, at[1] + i * steps[1], 0)


cdef int execute_arg(void *state, const dovetail_call *call) noexcept nogil:
    return run_errand(&(<arg_state *>state).lines, arg_row, state, call)


cdef object _create_arg(object descriptor, object info, object result):
    capsule = new_workload(execute_arg, sizeof(arg_state))
    cdef arg_state *self = <arg_state *>state_of(capsule)
    axis = descriptor.axis % info.rank
    strides, shape = contiguous(info.sizes, info.dtype.itemsize), without(info.sizes, axis)
    self.kind, self.target = element_of(info.dtype), element_of(result.dtype)
    self.smallest, self.last = descriptor.function is ArgFunction.MIN, descriptor.select_last
    self.length, self.step = info.sizes[axis], strides[axis]
    plan_walk(&self.lines, shape, (without(strides, axis), contiguous(shape, result.dtype.itemsize)))
    return capsule


# -- the k best ------------------------------------------------------------------------------------


cdef struct top_state:
    size_t workspace
    walk lines          # operands: input, values, positions
    Element kind
    bint smallest
    int64_t itemsize
    int64_t length
    int64_t k
    int64_t step        # bytes along the axis, of the input
    int64_t value_step
    int64_t position_step


cdef entry *sorted_entries(entry *entries, entry *spare, int64_t n, errand *run) noexcept nogil:
    """Sort by falling score, stably (bottom-up merge sort); return whichever holds the result."""
    cdef int64_t width = 1, begin, middle, end, a, b, i
    cdef entry *swap
    while width < n:
        begin = 0
        while begin < n:
            middle, end = min(begin + width, n), min(begin + 2 * width, n)
            a, b = begin, middle
            if not go_on(run, min(end - begin, <int64_t>1 << 15)):
                return entries
            for i in range(begin, end):
                if i & 0x7FFF == 0x7FFF and not go_on(run, 1 << 15):
                    return entries
                if a < middle and (b >= end or entries[a].score >= entries[b].score):
                    spare[i] = entries[a]
                    a += 1
                else:
                    spare[i] = entries[b]
                    b += 1
            begin = end
        swap, entries, spare = entries, spare, entries
        width *= 2
    return entries


cdef void top_row(char **at, const int64_t *steps, int64_t n, void *arg) noexcept nogil:
    cdef errand *run = <errand *>arg
    cdef top_state *self = <top_state *>run.state
    cdef entry *entries = <entry *>run.call.workspace
    cdef entry *best
    cdef uint64_t scores[BLOCK]
    cdef const char *line
    cdef int64_t i, j, done, count
    for i in range(n):
        line, done = at[0] + i * steps[0], 0
        while done < self.length:
            count = min(<int64_t>BLOCK, self.length - done)
            if not go_on(run, count):
                return
            load_scores(self.kind, self.smallest, False, line + done * self.step, self.step, count, scores)
            for j in range(count):
                entries[done + j].score, entries[done + j].position = scores[j], done + j
            done += count
        best = sorted_entries(entries, entries + self.length, self.length, run)
        if run.code != DOVETAIL_OK:
            return
        for j in range(self.k):
            if j & 0x7FFF == 0x7FFF and not go_on(run, 1 << 15):
                return
            memcpy(at[1] + i * steps[1] + j * self.value_step, line + best[j].position * self.step, self.itemsize)
            store_wholes(INT64, &best[j].position, False, 1, at[2] + i * steps[2] + j * self.position_step, 0)


cdef int execute_top(void *state, const dovetail_call *call) noexcept nogil:
    return run_errand(&(<top_state *>state).lines, top_row, state, call)


cdef object _create_top_k(object descriptor, object info, object values):
    capsule = new_workload(execute_top, sizeof(top_state))
    cdef top_state *self = <top_state *>state_of(capsule)
    axis, itemsize = descriptor.axis % info.rank, info.dtype.itemsize
    by_operand = [contiguous(info.sizes, itemsize), contiguous(values.sizes, itemsize), contiguous(values.sizes, 8)]
    self.kind, self.smallest, self.itemsize = element_of(info.dtype), not descriptor.largest, itemsize
    self.length, self.k = info.sizes[axis], descriptor.k
    self.step, self.value_step, self.position_step = (strides[axis] for strides in by_operand)
    plan_walk(&self.lines, without(info.sizes, axis), [without(strides, axis) for strides in by_operand])
    self.workspace = 2 * <size_t>self.length * sizeof(entry)
    workload_of(capsule).workspace = stated_workspace
    return capsule
