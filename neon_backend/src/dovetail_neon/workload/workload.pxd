"""What all workloads share: parameters, packed constants, up to four parallel loops."""

from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint32_t

from dovetail.abi cimport dovetail_alias, dovetail_body, dovetail_call, dovetail_execute
from dovetail_neon.workload.job cimport acc_job, acc_phase
from dovetail_neon.workload.packed cimport Block, PackedConstants

cdef enum:
    MAX_PHASES = 4
    MAX_BLOCKS = 48
    MAX_PACKED = 16
    MAX_ALIASES = 64
    # Elements, and pixels of a block of channels: longer rows and planes are cut up, so that a run
    # can be stopped in them.
    LONG_ROW = 1 << 18
    LONG_PLANE = 1 << 16

cdef struct acc_state:
    void *parameters                # the first of the blocks
    acc_phase phases[MAX_PHASES]
    int32_t n_phases
    int32_t n_blocks
    int32_t n_inputs
    int32_t n_outputs
    size_t shared                   # bytes of scratch
    size_t per_worker
    size_t private_bytes
    void *blocks[MAX_BLOCKS]       # owned
    size_t block_bytes[MAX_BLOCKS]
    bint is_restored                # it lies in a snapshot, which is what it holds
    int32_t n_packed
    PyObject *packed[MAX_PACKED]   # held: blocks that other workloads may hold too
    int32_t n_aliases
    dovetail_alias aliases[MAX_ALIASES]

cdef class Workload:
    """A workload being made; what was allocated is freed with it unless a capsule took it over."""

    cdef acc_state *state
    cdef void *allocate(self, size_t nbytes) except NULL
    cdef void *packed_before(self, PackedConstants constants, object source, tuple form) except? NULL
    cdef void *share(self, PackedConstants constants, Block block, object source, tuple form, object layer) except NULL
    cdef void *hold(self, Block block) except NULL
    cdef int phase(self, dovetail_body body, int64_t range, double nanoseconds, int64_t multiple=*, int32_t per_worker=*) except -1
    cdef int alias(self, int relation, int output, int input, int64_t offset) except -1

cdef int64_t chunks_of(double nanoseconds, double each, int64_t most) noexcept
cdef int fill(void *memory, array, dtype) except -1
cdef const float *keep(Workload workload, array) except NULL
cdef const float *keep_packed(Workload workload, PackedConstants constants, array, object source, tuple form, object layer) except NULL
cdef const int64_t *keep_integers(Workload workload, numbers) except NULL
cdef void *first_line(void *block) noexcept
cdef object capsule_of(acc_state *state, dovetail_execute execute_it, uint32_t flags)
cdef Workload new_workload(size_t parameter_bytes, int n_inputs, int n_outputs)

cdef int run_phases(const acc_state *state, const dovetail_call *call, acc_job *job) noexcept nogil
