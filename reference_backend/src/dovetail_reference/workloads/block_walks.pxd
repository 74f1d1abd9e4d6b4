"""One walk that loads a block of each input, computes, and stores the result; any element types.

A family states what is computed of a block. Inline helpers only.
"""

from libc.stdint cimport int64_t

from dovetail.abi cimport dovetail_call, dovetail_execute
from dovetail_reference.workloads.blocks cimport REAL, UNSIGNED, domain_of, load_reals, load_wholes, store_reals, store_wholes
from dovetail_reference.workloads.elements cimport Element, element_of
from dovetail_reference.workloads.walking cimport BLOCK, walk, walk_tensors
from dovetail_reference.workloads.workload cimport new_workload, state_of

# Elements, held as what they are computed in.
cdef union block:
    double reals[BLOCK]
    int64_t wholes[BLOCK]

# Computes n elements of every input; the results take the place of input 0.
ctypedef void (*block_function)(const void *state, block *inputs, int64_t n) noexcept nogil

cdef struct block_walk:
    # What a state begins with.
    walk route          # operands: one or two inputs, output
    Element kinds[3]    # of the operands
    bint real           # some input is: all are computed as doubles
    block_function compute


cdef inline void block_row(char **at, const int64_t *steps, int64_t n, void *arg) noexcept nogil:
    """The row function of a walk whose argument is a `block_walk`."""
    cdef const block_walk *self = <const block_walk *>arg
    cdef block inputs[2]
    cdef int operand, output = self.route.operands - 1
    for operand in range(output):
        if self.real:
            load_reals(self.kinds[operand], at[operand], steps[operand], n, inputs[operand].reals)
        else:
            load_wholes(self.kinds[operand], at[operand], steps[operand], n, inputs[operand].wholes)
    if self.compute != NULL:
        self.compute(self, inputs, n)
    if self.real:
        store_reals(self.kinds[output], inputs[0].reals, n, at[output], steps[output])
    else:
        store_wholes(self.kinds[output], inputs[0].wholes, domain_of(self.kinds[0]) == UNSIGNED, n, at[output], steps[output])


cdef inline int execute_blocks(void *state, const dovetail_call *call) noexcept nogil:
    return walk_tensors(&(<block_walk *>state).route, block_row, state, call)


cdef inline object new_block_walk(size_t state_bytes, object infos, dovetail_execute execute=execute_blocks):
    """Make the capsule of a workload over tensors like `infos`, the inputs and the output.

    Its route and its function are still to be filled in.
    """
    capsule = new_workload(execute, state_bytes)
    cdef block_walk *self = <block_walk *>state_of(capsule)
    cdef int operand, output = len(infos) - 1
    for operand in range(output + 1):
        self.kinds[operand] = element_of(infos[operand].dtype)
        self.real = self.real or (operand < output and domain_of(self.kinds[operand]) == REAL)
    return capsule
