"""Maximum and average over the windows of an image [N, C, H, W] of float32.

Which layers come here stands in dovetail-backend.json, under "claims".
"""

from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t

from dovetail.abi cimport dovetail_call, tensor_data, workload_capsule

ELEMENTS_PER_CHUNK = 4096  # What a thread takes at once: some 10 µs of work, more than it costs to hand it out.


# What execute has to know. The core hands it over at each run and frees it by `release`; in between it is only read.
# Of two numbers the first is for the height, the second for the width.
cdef struct pooling_state:
    bint is_maximum
    int64_t planes          # images times channels
    int64_t rows_per_chunk
    int64_t image[2]
    int64_t result[2]
    int64_t size[2]
    int64_t stride[2]
    int64_t padding[2]      # above and to the left


# What a chunk has to know.
cdef struct pooling_job:
    const pooling_state *state
    const float *x
    float *y


cdef float pool(const pooling_state *self, const float *plane, int64_t row, int64_t column) noexcept nogil:
    """Reduce a window; what lies outside the image never counts."""
    cdef int64_t top = row * self.stride[0] - self.padding[0], left = column * self.stride[1] - self.padding[1]
    cdef int64_t bottom = min(top + self.size[0], self.image[0]), right = min(left + self.size[1], self.image[1])
    cdef int64_t count = 0, y, x
    cdef float largest = -INFINITY, value
    cdef double total = 0
    for y in range(max(top, 0), bottom):
        for x in range(max(left, 0), right):
            value = plane[y * self.image[1] + x]
            total += value
            count += 1
            if value > largest or value != value:  # NaN wins, as in NumPy.
                largest = value
    if self.is_maximum:
        return largest
    return <float>(total / <double>count) if count else 0


cdef void pool_rows(int64_t begin, int64_t end, int32_t worker, void *arg) noexcept nogil:
    """Compute rows of the result; those of all planes are counted through."""
    cdef const pooling_job *job = <const pooling_job *>arg
    cdef const pooling_state *self = job.state
    cdef int64_t row, column
    for row in range(begin, end):
        plane = job.x + row // self.result[0] * self.image[0] * self.image[1]
        for column in range(self.result[1]):
            job.y[row * self.result[1] + column] = pool(self, plane, row % self.result[0], column)


cdef int execute(void *state, const dovetail_call *call) noexcept nogil:
    """Run the layer: without the GIL, on whichever thread the core chooses, possibly in several runs at once."""
    cdef pooling_job job
    job.state = <const pooling_state *>state
    job.x, job.y = <const float *>tensor_data(&call.inputs[0]), <float *>tensor_data(&call.outputs[0])
    # On the core's threads, as many as the user allows. If the run was cancelled, it says so: hand that on.
    return call.host.parallel_for(call, job.state.planes * job.state.result[0], job.state.rows_per_chunk, pool_rows, &job)


cdef void release(void *state) noexcept nogil:
    PyMem_RawFree(state)


def create(layer):
    """Return the workload of a layer that is claimed: a capsule around `execute` and its state."""
    cdef pooling_state *self = <pooling_state *>PyMem_RawCalloc(1, sizeof(pooling_state))
    if self == NULL:
        raise MemoryError
    try:
        pooling, image, result = layer.descriptor, layer.inputs[0].info.sizes, layer.output.info.sizes
        self.is_maximum = pooling.function == "max"
        self.planes = image[0] * image[1]
        self.rows_per_chunk = max(1, ELEMENTS_PER_CHUNK // (max(1, result[3]) * pooling.size[0] * pooling.size[1]))
        for axis in range(2):
            self.image[axis], self.result[axis] = image[axis + 2], result[axis + 2]
            self.size[axis], self.stride[axis] = pooling.size[axis], pooling.stride[axis]
            self.padding[axis] = pooling.padding[axis]
        return workload_capsule(execute, self, release)
    except BaseException:
        release(self)  # Nobody else has it yet.
        raise
