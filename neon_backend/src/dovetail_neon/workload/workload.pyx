"""What all workloads share: parameters, packed constants, up to four parallel loops."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree
from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_GetPointer
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from dovetail.abi cimport (
    DOVETAIL_CANCELLED,
    DOVETAIL_OK,
    DOVETAIL_WORKLOAD_CAPSULE,
    dovetail_call,
    dovetail_execute,
    dovetail_tensor,
    dovetail_workload,
    tensor_data,
    workload_capsule,
)
from dovetail_neon.workload.job cimport acc_job, acc_phase
from dovetail_neon.workload.packed cimport Block, PackedConstants, new_block

import numpy as np

from dovetail.ground.pieces import put

cdef enum:
    MAX_TENSORS = 64
    LINE = 64                   # bytes
    # Nanoseconds. Handing work to a thread that waits for it, and hearing that it is done, took 0.3
    # microseconds between two cores of one processor, and what another core wrote arrives from
    # there at some 10 GB/s: a shorter loop gains little, loses as often, and stays on one thread.
    WORTH_SHARING = 1_500
    MIN_CHUNK = 700
    LONGEST_CHUNK = 2_000_000   # a run is stopped between chunks
    LONGER_CHUNKS = 4           # of that, where several threads share a loop
    CHUNKS_PER_WORKER = 8       # so that a thread that is held up can be helped
    CHUNK_BYTES = 4 << 20       # see bound_chunks
    MIN_CHUNKS = 64           # of loops that it bounds
    AT_ONCE = 1 << 20           # bytes that are copied without a look at the time


cdef int64_t grain_of(const acc_phase *phase, int32_t workers) noexcept nogil:
    """Choose how many items a thread takes at once; chunks end where two threads' parts meet."""
    cdef int64_t chunks = min(phase.most // workers, phase.per_worker), parts = 1, share
    if phase.most <= 1:
        return phase.range
    workers = <int32_t>min(<int64_t>workers, phase.most)
    share = min((phase.range + workers - 1) // workers, LONGER_CHUNKS * phase.alone * max(chunks, <int64_t>1))
    if share <= chunks:
        return 1
    while 2 * parts <= chunks and (share % (2 * parts) == 0 or share >= 32 * parts):  # never 7 rows as 4 and 3
        parts *= 2
    share = (share + parts - 1) // parts
    return (share + phase.multiple - 1) // phase.multiple * phase.multiple


cdef int64_t chunks_of(double nanoseconds, double each, int64_t most) noexcept:
    """Return how many chunks of `each` nanoseconds a loop is cut into, limited by `most`.

    There are more where a run could otherwise not be stopped between them in time, and two at least
    where it is worth sharing.
    """
    cdef double least = 1.0 if nanoseconds < WORTH_SHARING else 2.0
    return <int64_t>min(max(min(nanoseconds / each, <double>most), nanoseconds / LONGEST_CHUNK, least), 65536.0)


cdef int run_phases(const acc_state *state, const dovetail_call *call, acc_job *job) noexcept nogil:
    """Run the loops one after the other; a loop of one chunk costs a call."""
    cdef int32_t i
    cdef int status
    cdef int64_t grain
    cdef const acc_phase *phase
    for i in range(state.n_phases):
        phase = &state.phases[i]
        grain = phase.alone if call.workers == 1 else grain_of(phase, call.workers)
        if grain >= phase.range:
            phase.body(0, phase.range, 0, job)
        else:
            status = call.host.parallel_for(call, phase.range, grain, phase.body, job)
            if status != DOVETAIL_OK:
                return status
        if job.stopped[0]:
            return DOVETAIL_CANCELLED
    return DOVETAIL_OK


cdef int execute(void *self, const dovetail_call *call) noexcept nogil:
    cdef const acc_state *state = <const acc_state *>self
    cdef const void *inputs[MAX_TENSORS]
    cdef void *outputs[MAX_TENSORS]
    cdef acc_job job
    cdef int32_t i, stopped = 0
    for i in range(call.n_inputs):
        inputs[i] = tensor_data(&call.inputs[i])
    for i in range(call.n_outputs):
        outputs[i] = tensor_data(&call.outputs[i])
    job.parameters, job.inputs, job.outputs = state.parameters, inputs, outputs
    job.workspace, job.worker_workspace = <char *>call.workspace, <char *>call.worker_workspace
    job.worker_stride = call.worker_stride
    job.call, job.stopped = call, &stopped
    return run_phases(state, call, &job)


cdef int workspace(void *self, const dovetail_tensor *inputs, const dovetail_tensor *outputs, int32_t workers, size_t *shared,
                   size_t *per_worker) noexcept nogil:
    shared[0], per_worker[0] = (<acc_state *>self).shared, (<acc_state *>self).per_worker
    return DOVETAIL_OK


cdef void release(void *self) noexcept nogil:
    cdef acc_state *state = <acc_state *>self
    cdef int32_t i
    for i in range(state.n_blocks):
        free(state.blocks[i])
    if state.is_restored:
        drop_snapshot(state)
        return
    if state.n_packed:
        drop_packed(state)
    PyMem_RawFree(state)


cdef void drop_packed(acc_state *state) noexcept with gil:
    cdef int32_t i
    for i in range(state.n_packed):
        Py_DECREF(<object>state.packed[i])


cdef void drop_snapshot(acc_state *state) noexcept with gil:
    Py_DECREF(<object>state.packed[0])      # the state lies in it


cdef void *first_line(void *block) noexcept:
    """Return where what was asked for begins in memory that was allocated for it."""
    return <void *>((<size_t>block + LINE - 1) // LINE * LINE)


cdef class Workload:
    def __dealloc__(self):
        if self.state != NULL:
            release(self.state)

    cdef void *allocate(self, size_t nbytes) except NULL:
        """Return zeroed memory, aligned to a cache line, that lives as long as the workload."""
        if self.state.n_blocks == MAX_BLOCKS:
            raise ValueError("a workload owns too many blocks of memory")
        # Pages fresh from the system are zero: calloc does not write to them, so that packing is
        # the first to touch them.
        cdef void *block = calloc(nbytes + LINE, 1)
        if block == NULL:
            raise MemoryError(f"no {nbytes} bytes for constants of a layer")
        self.state.blocks[self.state.n_blocks], self.state.block_bytes[self.state.n_blocks] = block, nbytes
        self.state.n_blocks += 1
        self.state.private_bytes += nbytes
        return first_line(block)

    cdef void *packed_before(self, PackedConstants constants, object source, tuple form) except? NULL:
        """Return what another workload packed from an array in this form, and hold it; else NULL.

        The other workload is of the same network.
        """
        cdef Block block = constants.find(source, form)
        return NULL if block is None else self.hold(block)

    cdef void *share(self, PackedConstants constants, Block block, object source, tuple form, object layer) except NULL:
        """Hold what was packed for a layer, or the same of another workload of the network."""
        return self.hold(constants.add(block, source, form, layer))

    cdef void *hold(self, Block block) except NULL:
        if self.state.n_packed == MAX_PACKED:
            raise ValueError("a workload holds too many packed constants")
        Py_INCREF(block)
        self.state.packed[self.state.n_packed] = <PyObject *>block
        self.state.n_packed += 1
        if not block.counted:   # once: by the first that holds it
            self.state.private_bytes += block.nbytes
            block.counted = True
        return block.data

    cdef int phase(
        self, dovetail_body body, int64_t range, double nanoseconds, int64_t multiple=1, int32_t per_worker=CHUNKS_PER_WORKER
    ) except -1:
        """Add a parallel loop after the others: `range` items, with their time on one thread.

        `multiple`: how many items belong together; `per_worker`: chunks for each of several
        workers, where fewer do not suffice.
        """
        cdef acc_state *state = self.state
        if state.n_phases == MAX_PHASES:
            raise ValueError("a workload has too many phases")
        phase = &state.phases[state.n_phases]
        phase.body, phase.range, phase.multiple, phase.per_worker = body, range, multiple, per_worker
        phase.most = 1 if nanoseconds < WORTH_SHARING else <int64_t>min(nanoseconds / MIN_CHUNK, 1e6)
        phase.alone = range // (1 + <int64_t>min(nanoseconds / LONGEST_CHUNK, 1e6))
        phase.alone = max(1, (phase.alone + multiple - 1) // multiple * multiple)
        state.n_phases += 1
        return 0

    cdef int alias(self, int relation, int output, int input, int64_t offset) except -1:
        """Permit an output to share bytes with an input, see abi.h."""
        cdef acc_state *state = self.state
        if state.n_aliases == MAX_ALIASES:
            raise ValueError("a workload has too many aliases")
        entry = &state.aliases[state.n_aliases]
        entry.relation, entry.output, entry.input, entry.reserved, entry.offset = relation, output, input, 0, offset
        state.n_aliases += 1
        return 0

    def capsule(self, int flags=0):
        """Hand over what was made."""
        capsule = capsule_of(self.state, execute, flags)
        self.state = NULL
        return capsule


cdef object capsule_of(acc_state *state, dovetail_execute execute_it, uint32_t flags):
    """Return the capsule of a state, which belongs to it from now on."""
    cdef dovetail_workload *workload = NULL
    capsule = workload_capsule(execute_it, state, release, &workload)
    workload.workspace = workspace
    workload.aliases, workload.n_aliases = state.aliases, state.n_aliases
    workload.flags = flags
    workload.private_bytes = state.private_bytes
    return capsule


def bound_chunks(capsule, int64_t nbytes):
    """Cut the loops of a workload whose tensors and scratch are so large by what they touch, too.

    What a loop takes is estimated for memory that is there. Pages that the system has to make
    first, and memory beyond the caches, take many times as long; a chunk that touches no more than
    `CHUNK_BYTES` ends soon nevertheless.
    """
    cdef dovetail_workload *workload = <dovetail_workload *>PyCapsule_GetPointer(capsule, DOVETAIL_WORKLOAD_CAPSULE)
    cdef acc_state *state = <acc_state *>workload.state
    cdef acc_phase *phase
    cdef int64_t items
    cdef int32_t i
    for i in range(state.n_phases):
        phase = &state.phases[i]
        items = <int64_t>(phase.range * (<double>CHUNK_BYTES / (nbytes + state.shared)))
        phase.alone = max(min(phase.alone, items // phase.multiple * phase.multiple), phase.multiple)
        phase.most = max(phase.most, <int64_t>MIN_CHUNKS)


cdef Workload new_workload(size_t parameter_bytes, int n_inputs, int n_outputs):
    """Return a workload with zeroed parameters and no phases."""
    cdef Workload workload = Workload.__new__(Workload)
    if max(n_inputs, n_outputs) > MAX_TENSORS:
        raise ValueError(f"a layer with {max(n_inputs, n_outputs)} tensors; at most {MAX_TENSORS} were expected")
    workload.state = <acc_state *>PyMem_RawCalloc(1, sizeof(acc_state))
    if workload.state == NULL:
        raise MemoryError
    workload.state.n_inputs, workload.state.n_outputs = n_inputs, n_outputs
    workload.state.parameters = workload.allocate(parameter_bytes)
    return workload


cdef int fill(void *memory, array, dtype) except -1:
    """Copy an array into memory piece by piece, in row-major order, broadcast axes written out."""
    cdef unsigned char[::1] target
    cdef Py_buffer source
    if array.nbytes <= AT_ONCE and array.dtype == dtype and array.flags.c_contiguous:   # as most are: some factors
        PyObject_GetBuffer(array, &source, PyBUF_SIMPLE)
        memcpy(memory, source.buf, source.len)
        PyBuffer_Release(&source)
    elif array.size:
        target = <unsigned char[:array.size * dtype().itemsize]><unsigned char *>memory
        put(np.asarray(target).view(dtype).reshape(array.shape), array)
    return 0


cdef const float *keep(Workload workload, array) except NULL:
    """Copy an array into the workload, as float32."""
    cdef float *kept = <float *>workload.allocate(array.size * sizeof(float))
    fill(kept, array, np.float32)
    return kept


cdef const float *keep_packed(
    Workload workload, PackedConstants constants, array, object source, tuple form, object layer
) except NULL:
    """Copy an array packed from `source` as float32, shared by workloads that pack the same."""
    cdef Block block = new_block(array.size * sizeof(float))
    fill(block.data, array, np.float32)
    return <const float *>workload.share(constants, block, source, form, layer)


cdef const int64_t *keep_integers(Workload workload, numbers) except NULL:
    """Copy whole numbers into the workload."""
    source = np.asarray(numbers, np.int64)
    cdef int64_t *kept = <int64_t *>workload.allocate(source.size * sizeof(int64_t))
    fill(kept, source, np.int64)
    return kept
