"""Move elements: strided copies, selections by an index table per axis, fills.

An element is 1, 2, 4 or 8 bytes; what they mean plays no part. A strided copy of single bytes may
map each through a table of 256, which is how quantized activations and requantization are done.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from dovetail.abi cimport DOVETAIL_ALIAS_IN_PLACE, DOVETAIL_ALIAS_PART, DOVETAIL_ALIAS_VIEW, DOVETAIL_CANCELLED, DOVETAIL_OK
from dovetail.abi cimport DOVETAIL_WORKLOAD_ELIDABLE, dovetail_alias, dovetail_call, dovetail_workload, tensor_data
from dovetail_reference.workloads.elements cimport copy_elements
from dovetail_reference.workloads.walking cimport plan_walk, run_walk, walk
from dovetail_reference.workloads.workload cimport allocate, new_workload, state_of, workload_of

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from dovetail.ground.limits import budget
from dovetail.ground.pieces import PIECE


class Relation(IntEnum):
    """How an output of a copy may share bytes with its input; see `abi.h`."""

    NONE = 0
    VIEW = DOVETAIL_ALIAS_VIEW
    IN_PLACE = DOVETAIL_ALIAS_IN_PLACE
    PART = DOVETAIL_ALIAS_PART


@dataclass(frozen=True, kw_only=True)
class Copy:
    """One strided copy.

    Attributes:
        input, output: Indices of the tensors.
        shape: Elements that are copied.
        source_offset, target_offset: Bytes from the start of the tensor to element [0, 0, ...].
        source_strides, target_strides: Bytes, per axis of `shape`.
        relation: Alias that makes the copy unnecessary; its offset is whichever of the offsets is
            not 0.
        table: For elements of one byte, 256 bytes: what each becomes.
    """

    input: int = 0
    output: int = 0
    shape: tuple
    source_offset: int = 0
    target_offset: int = 0
    source_strides: tuple
    target_strides: tuple
    relation: Relation = Relation.NONE
    table: object = None


cdef struct copy:
    walk route
    int32_t input
    int32_t output
    int64_t source_offset
    int64_t target_offset
    bint contiguous
    bint mapped
    uint8_t table[256]

cdef struct movement:
    int64_t itemsize
    int64_t count
    copy *copies
    dovetail_alias *aliases


cdef void release_movement(void *state) noexcept nogil:
    cdef movement *self = <movement *>state
    free(self.copies)
    free(self.aliases)
    free(self)


cdef void copy_row(char **at, const int64_t *steps, int64_t n, void *arg) noexcept nogil:
    copy_elements(at[1], steps[1], at[0], steps[0], (<int64_t *>arg)[0], n)


cdef void map_row(char **at, const int64_t *steps, int64_t n, void *arg) noexcept nogil:
    cdef const uint8_t *table = <const uint8_t *>arg
    cdef int64_t i
    for i in range(n):
        (<uint8_t *>at[1])[i * steps[1]] = table[(<const uint8_t *>at[0])[i * steps[0]]]


cdef int execute_movement(void *state, const dovetail_call *call) noexcept nogil:
    cdef movement *self = <movement *>state
    cdef copy *one
    cdef char *bases[2]
    cdef int64_t i
    cdef int code
    for i in range(self.count):
        one = &self.copies[i]
        bases[0] = <char *>tensor_data(&call.inputs[one.input]) + one.source_offset
        bases[1] = <char *>tensor_data(&call.outputs[one.output]) + one.target_offset
        if one.mapped:
            code = run_walk(&one.route, bases, map_row, one.table, call)
        elif one.contiguous and bases[0] == bases[1]:
            code = DOVETAIL_OK      # the alias was taken up
        else:
            code = run_walk(&one.route, bases, copy_row, &self.itemsize, call)
        if code != DOVETAIL_OK:
            return code
    return DOVETAIL_OK


def movement_workload(copies, int64_t itemsize):
    """Make the workload capsule of a list of `Copy`, elidable if an alias spares every copy."""
    capsule = new_workload(execute_movement, sizeof(movement), release_movement)
    cdef movement *self = <movement *>state_of(capsule)
    cdef dovetail_workload *workload = workload_of(capsule)
    cdef copy *one
    cdef int32_t n_aliases = 0
    self.itemsize = itemsize
    self.copies = <copy *>allocate(len(copies), sizeof(copy))
    self.aliases = <dovetail_alias *>allocate(len(copies), sizeof(dovetail_alias))
    self.count = len(copies)
    for i, given in enumerate(copies):
        one = &self.copies[i]
        plan_walk(&one.route, given.shape, (given.source_strides, given.target_strides))
        one.route.block = 1 << 14
        one.input, one.output = given.input, given.output
        one.source_offset, one.target_offset = given.source_offset, given.target_offset
        one.contiguous = one.route.rows == 1 and (
            one.route.length == 1 or (one.route.steps[0] == itemsize and one.route.steps[1] == itemsize)
        )
        if given.table is not None:
            one.mapped = True
            for value in range(256):
                one.table[value] = given.table[value]
        if given.relation:
            self.aliases[n_aliases].relation = int(given.relation)
            self.aliases[n_aliases].input, self.aliases[n_aliases].output = given.input, given.output
            self.aliases[n_aliases].offset = given.source_offset + given.target_offset
            n_aliases += 1
    workload.aliases, workload.n_aliases = self.aliases, n_aliases
    if n_aliases == self.count and all(given.relation != Relation.IN_PLACE for given in copies):
        workload.flags = DOVETAIL_WORKLOAD_ELIDABLE
    return capsule


def mapping_workload(elements, table):
    """Make the workload capsule of a tensor of single bytes, mapped by a table of 256."""
    whole = Copy(shape=(elements,), source_strides=(1,), target_strides=(1,), relation=Relation.IN_PLACE, table=table)
    return movement_workload([whole], 1)


cdef struct selection:
    int64_t itemsize
    int32_t rank
    int64_t *sizes      # [rank] of the output
    int64_t *offsets    # for each axis, for each output position: bytes into the input


cdef void release_selection(void *state) noexcept nogil:
    cdef selection *self = <selection *>state
    free(self.sizes)
    free(self.offsets)
    free(self)


cdef int execute_selection(void *state, const dovetail_call *call) noexcept nogil:
    cdef selection *self = <selection *>state
    cdef int64_t itemsize = self.itemsize, last = self.rank - 1
    cdef const char *source = <const char *>tensor_data(&call.inputs[0])
    cdef char *target = <char *>tensor_data(&call.outputs[0])
    cdef int64_t rows = 1, row, rest, base, i, axis, patience = 0
    cdef const int64_t *table
    for axis in range(last):
        rows *= self.sizes[axis]
    for row in range(rows):
        rest, base = row, 0
        table = self.offsets
        for axis in range(last):
            table += self.sizes[axis]
        for axis in range(last - 1, -1, -1):
            table -= self.sizes[axis]
            base += table[rest % self.sizes[axis]]
            rest //= self.sizes[axis]
        for axis in range(last):
            table += self.sizes[axis]
        for i in range(self.sizes[last]):
            memcpy(target, source + base + table[i], itemsize)
            target += itemsize
            patience += 1
            if patience & 0x7FFF == 0 and call.host.is_cancelled(call):
                return DOVETAIL_CANCELLED
    return DOVETAIL_OK


def selection_workload(tables, source_strides, int64_t itemsize):
    """Make the workload capsule of output[i, j, ...] = input[tables[0][i], tables[1][j], ...].

    Args:
        tables: Per axis, an array of the input position of every output position.
        source_strides: Bytes, per axis.
        itemsize: Bytes of an element.
    """
    capsule = new_workload(execute_selection, sizeof(selection), release_selection)
    cdef selection *self = <selection *>state_of(capsule)
    cdef int64_t used = 0
    cdef const int64_t[::1] offsets
    if not tables:
        tables, source_strides = (np.zeros(1, np.int64),), (0,)
    self.itemsize, self.rank = itemsize, len(tables)
    self.sizes = <int64_t *>allocate(len(tables), sizeof(int64_t))
    self.offsets = <int64_t *>allocate(sum(map(len, tables)), sizeof(int64_t))
    for axis, table in enumerate(tables):
        self.sizes[axis] = len(table)
        for begin in range(0, len(table), PIECE):
            budget().check_time()
            offsets = table[begin : begin + PIECE] * source_strides[axis]
            memcpy(self.offsets + used, &offsets[0], offsets.shape[0] * sizeof(int64_t))
            used += offsets.shape[0]
    return capsule


cdef struct pattern:
    int64_t nbytes      # of the output
    int64_t size        # of what is repeated there
    char *bytes


cdef void release_pattern(void *state) noexcept nogil:
    free((<pattern *>state).bytes)
    free(state)


cdef int execute_pattern(void *state, const dovetail_call *call) noexcept nogil:
    cdef const pattern *self = <const pattern *>state
    cdef char *target = <char *>tensor_data(&call.outputs[0])
    cdef int64_t done = 0, n, looked_at = 0
    while done < self.nbytes:
        n = min(self.size, self.nbytes - done)
        memcpy(target + done, self.bytes, n)
        done += n
        if done - looked_at > 1 << 18:
            looked_at = done
            if call.host.is_cancelled(call):
                return DOVETAIL_CANCELLED
    return DOVETAIL_OK


def fill_workload(content, count=1):
    """Make the workload capsule of a constant output: these bytes, so many times."""
    capsule = new_workload(execute_pattern, sizeof(pattern), release_pattern)
    cdef pattern *self = <pattern *>state_of(capsule)
    cdef bytes given = content * min(count, max(4096 // max(len(content), 1), 1))
    cdef const char *source = given
    self.nbytes, self.size = len(content) * count, len(given)
    self.bytes = <char *>allocate(self.size, 1)
    memcpy(self.bytes, source, self.size)
    return capsule
