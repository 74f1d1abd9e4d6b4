"""Maximum and average over the windows of an image [N, C, H, W] of float32.

Which layers come here stands in dovetail-backend.json, under "claims": those whose windows lie
within the image.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t

from dovetail.abi cimport dovetail_call, tensor_data, tensor_elements, workload_with_state

cdef int64_t ROWS_PER_CHUNK = 64  # What a thread takes at once: more work than it costs to hand it out.


# What execute has to know. The core keeps it as long as the workload; it is only read, by several
# runs at once. Of two numbers the first is for the height, the second for the width.
cdef struct pooling_state:
    bint is_maximum
    int64_t image[2]
    int64_t result[2]
    int64_t size[2]
    int64_t stride[2]


# What a chunk has to know.
cdef struct pooling_job:
    const pooling_state *state
    const float *x
    float *y


@cython.cdivision(True)  # C's division, which does not check for zero; elsewhere in this file it is Python's.
cdef float pool(const pooling_state *self, const float *window) noexcept nogil:
    """Reduce the window that begins here."""
    cdef float largest = window[0]
    cdef float value
    cdef double total = 0
    cdef int64_t y, x
    for y in range(self.size[0]):
        for x in range(self.size[1]):
            value = window[y * self.image[1] + x]
            total += value
            if value > largest or value != value:  # NaN wins, as in NumPy.
                largest = value
    return largest if self.is_maximum else <float>(total / (self.size[0] * self.size[1]))


@cython.cdivision(True)
cdef void pool_rows(int64_t begin, int64_t end, int32_t worker, void *arg) noexcept nogil:
    """Compute rows of the result; those of all images and channels are counted through."""
    cdef const pooling_job *job = <const pooling_job *>arg
    cdef const pooling_state *self = job.state
    cdef int64_t row, column, top
    for row in range(begin, end):
        top = row // self.result[0] * self.image[0] + row % self.result[0] * self.stride[0]
        for column in range(self.result[1]):
            job.y[row * self.result[1] + column] = pool(self, job.x + top * self.image[1] + column * self.stride[1])


@cython.cdivision(True)
cdef int execute(void *state, const dovetail_call *call) noexcept nogil:
    """Run the layer without the GIL, on any thread of the core, possibly in parallel runs."""
    cdef pooling_job job
    job.state = <const pooling_state *>state
    job.x = <const float *>tensor_data(&call.inputs[0])
    job.y = <float *>tensor_data(&call.outputs[0])
    cdef int64_t rows = tensor_elements(&call.outputs[0]) // job.state.result[1]
    # On the core's threads, as many as the user allows. If the run was cancelled, it says so: hand
    # that on.
    return call.host.parallel_for(call, rows, ROWS_PER_CHUNK, pool_rows, &job)


def create(layer):
    """Return the workload of a layer that is claimed: `execute` and its state."""
    cdef pooling_state state
    state.is_maximum = layer.descriptor.function == "max"
    for axis in range(2):
        state.image[axis] = layer.inputs[0].info.sizes[axis + 2]
        state.result[axis] = layer.output.info.sizes[axis + 2]
        state.size[axis] = layer.descriptor.size[axis]
        state.stride[axis] = layer.descriptor.stride[axis]
    return workload_with_state(execute, &state, sizeof(state))
