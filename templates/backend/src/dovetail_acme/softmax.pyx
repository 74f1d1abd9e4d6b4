"""Softmax of float32: exp(beta * x) over its sum along an axis.

Whether a layer can be run, and how, stand in one file, so that they cannot drift apart.
"""

from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree
from libc.math cimport INFINITY, exp, fmax
from libc.stdint cimport int32_t, int64_t

from dovetail.abi cimport (
    DOVETAIL_ALIAS_IN_PLACE, dovetail_alias, dovetail_call, dovetail_workload, tensor_data, workload_capsule
)

import math

from dovetail import DType, Support

ELEMENTS_PER_CHUNK = 8192  # Some 50 µs of work: what a thread takes at once, far more than it costs to hand out.


def supports(layer):
    """Say whether the layer can be run. The manifest claims the same; the conformance tests compare the two."""
    dtype = layer.inputs[0].info.dtype
    if dtype is not DType.FLOAT32:
        return Support.no("dtype", f"softmax of {dtype} is not implemented; that of float32 is")
    if layer.descriptor.log:
        return Support.no("attribute", "the logarithm of softmax is not implemented", "log")
    return Support.yes()


# What execute has to know. The core passes it along and frees it by `release`; while runs are in flight it is only read.
cdef struct softmax_state:
    int64_t rows            # how many softmaxes
    int64_t length          # elements of each
    int64_t stride          # elements from one to the next, along the axis
    int64_t rows_per_chunk
    double beta
    dovetail_alias alias


# What a chunk has to know.
cdef struct softmax_job:
    const softmax_state *state
    const float *x
    float *y


cdef void compute_rows(int64_t begin, int64_t end, int32_t worker, void *arg) noexcept nogil:
    """Compute some of the rows. In float64: half a unit in the last place comes from storing the result, next to nothing else."""
    cdef const softmax_job *job = <const softmax_job *>arg
    cdef const softmax_state *self = job.state
    cdef double largest, total
    cdef int64_t row, i, first
    for row in range(begin, end):
        first = row // self.stride * self.stride * self.length + row % self.stride
        largest, total = -INFINITY, 0
        for i in range(self.length):
            largest = fmax(largest, self.beta * job.x[first + i * self.stride])
        for i in range(self.length):
            total += exp(self.beta * job.x[first + i * self.stride] - largest)
        for i in range(self.length):  # Each element is read before its place is written: x and y may be the same memory.
            job.y[first + i * self.stride] = <float>(exp(self.beta * job.x[first + i * self.stride] - largest) / total)


cdef int execute(void *state, const dovetail_call *call) noexcept nogil:
    """Run the layer: without the GIL, on whichever thread the core chooses, possibly for several runs at once."""
    cdef softmax_job job
    job.state = <const softmax_state *>state
    job.x, job.y = <const float *>tensor_data(&call.inputs[0]), <float *>tensor_data(&call.outputs[0])
    # The core's threads, as many as the user allows. It also says when the run was cancelled: hand its answer on.
    return call.host.parallel_for(call, job.state.rows, job.state.rows_per_chunk, compute_rows, &job)


cdef void release(void *state) noexcept nogil:
    PyMem_RawFree(state)


def create(layer):
    """Return the workload of a layer that `supports` took: a capsule around `execute` and its state."""
    cdef dovetail_workload *workload
    cdef softmax_state *self = <softmax_state *>PyMem_RawCalloc(1, sizeof(softmax_state))
    if self == NULL:
        raise MemoryError
    try:
        shape = layer.inputs[0].info.sizes
        axis = layer.descriptor.axis % len(shape)
        self.length, self.stride = shape[axis], math.prod(shape[axis + 1:])
        self.rows = math.prod(shape[:axis]) * self.stride
        self.rows_per_chunk = max(1, ELEMENTS_PER_CHUNK // max(1, self.length))
        self.beta = layer.descriptor.beta
        # A permission: the core may give the output the memory of the input, if nobody else reads that.
        self.alias.relation = DOVETAIL_ALIAS_IN_PLACE
        capsule = workload_capsule(execute, self, release, &workload)
    except BaseException:
        release(self)
        raise
    workload.aliases, workload.n_aliases = &self.alias, 1
    return capsule
