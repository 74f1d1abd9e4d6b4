"""Both ends of the calls into another process; `csrc/channel.h` says how they work.

Where a class holds C state that C code points at, it is invisible to the cycle collector (no_gc),
as those of `runtime/workload.pyx` are.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree
from libc.errno cimport errno
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memcpy
from posix.mman cimport MAP_FAILED, MAP_SHARED, PROT_READ, PROT_WRITE, mmap, munmap
from posix.unistd cimport close, getpid

from dovetail.abi cimport (
    DOVETAIL_CANCELLED,
    DOVETAIL_FAILED,
    DOVETAIL_FORKED,
    DOVETAIL_OK,
    DOVETAIL_OUT_OF_MEMORY,
    dovetail_call,
    dovetail_workload,
    workload_capsule,
)

import os

from ..ground.foreign_text import described
from ..ground.usable_cores import usable_cores

cdef extern from "sys/prctl.h" nogil:
    int PR_SET_PDEATHSIG
    int prctl(int option, unsigned long argument, ...)

cdef extern from "executor.h" nogil:
    ctypedef struct dvt_context:
        void *owner

cdef extern from "channel.h" nogil:
    enum:
        DVT_CHANNEL_TEXT
        DVT_CHANNEL_SPANS
        DVT_CHANNEL_SPAN_NAME
        DVT_LOOK_AT_SOCKET
        DVT_WORKER_DIED
        DVT_WORKER_LOST
    ctypedef struct dvt_channel_span:
        int64_t begin, end
        char *name
    ctypedef struct dvt_channel:
        uint32_t stopped
        int32_t part, is_profiled, n_spans
        int64_t deadline
        int32_t status
        uint32_t text_bytes
        char *text
        dvt_channel_span *spans
    ctypedef struct dvt_patience:
        int32_t left_out
    ctypedef struct dvt_worker_end:
        dvt_channel *channel
        int pidfd, alive, was_killed
        int32_t generation
        uint32_t requests
        int64_t spin_ns, grace_ns, successes
        int32_t host
    ctypedef struct dvt_isolated_part:
        dvt_worker_end *worker
        int32_t number, generation
        char *memory
        const size_t *offsets
        const size_t *bytes
        int32_t n_inputs, n_outputs
        void *owner
        int (*revive)(void *owner, const dovetail_call *call) noexcept nogil
        int (*explain)(void *owner, const dovetail_call *call, int status) noexcept nogil
    int dvt_isolated_execute(void *state, const dovetail_call *call) noexcept
    uint32_t dvt_ask(dvt_worker_end *worker, int32_t part, int64_t deadline)
    int dvt_has_ended(const dvt_worker_end *worker)
    int dvt_worker_try(dvt_worker_end *worker, int64_t sleep_ns)
    void dvt_worker_release(dvt_worker_end *worker)
    void dvt_worker_kill(dvt_worker_end *worker)
    uint32_t dvt_next_request(
        dvt_channel *channel, uint32_t last, int64_t spin_ns, dvt_patience *patience, int64_t *taken_ns)
    void dvt_answer_request(dvt_channel *channel, uint32_t request, int64_t taken_ns, int32_t status, uint32_t text_bytes)

CHANNEL_BYTES = sizeof(dvt_channel)
"""Of the shared memory of a channel."""

TEXT_BYTES = <int>DVT_CHANNEL_TEXT
"""Of the text of an answer, at most."""

MAX_SPANS = <int>DVT_CHANNEL_SPANS
"""Times of devices in an answer, at most."""

OK, FAILED, CANCELLED, OUT_OF_MEMORY = DOVETAIL_OK, DOVETAIL_FAILED, DOVETAIL_CANCELLED, DOVETAIL_OUT_OF_MEMORY
DIED, LOST = <int>DVT_WORKER_DIED, <int>DVT_WORKER_LOST

cdef int64_t HOST_SPIN_NS = 100_000 # the host spins for runs that took no longer the last time
cdef int64_t SPIN_NS = 50_000       # about what it costs to wake a sleeper up
cdef int64_t GRACE_NS = 100_000_000 # a run ends within 200 ms after its deadline
cdef int64_t SLICE_NS = 2_000_000


def die_with_parent(int number):
    """Have the kernel send this process a signal once the thread that forked it ends."""
    prctl(PR_SET_PDEATHSIG, <unsigned long>number, 0, 0, 0)


@cython.final
@cython.no_gc
cdef class SharedBytes:
    """Bytes of a file in memory, mapped; the descriptor is not kept.

    Args:
        descriptor: Of the file.
        nbytes: How many; 0 maps nothing.
        writeable: Whether they are written to.

    Raises:
        OSError: They cannot be mapped.
    """

    cdef char *address
    cdef size_t nbytes
    cdef bint writeable

    def __cinit__(self, int descriptor, size_t nbytes, bint writeable):
        cdef void *address
        self.nbytes, self.writeable = nbytes, writeable
        if nbytes:
            address = mmap(NULL, nbytes, PROT_READ | (PROT_WRITE if writeable else 0), MAP_SHARED, descriptor, 0)
            if address == MAP_FAILED:
                raise OSError(errno, os.strerror(errno))
            self.address = <char *>address

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.address, self.nbytes, not self.writeable, flags)

    def __dealloc__(self):
        if self.address != NULL:
            munmap(self.address, self.nbytes)


@cython.final
@cython.no_gc
cdef class WorkerEnd:
    """The host's end of a worker process, and of those that take its place.

    Everything but `acquire` and what only looks is called with its lock held.
    """

    cdef dvt_worker_end c
    cdef SharedBytes channel

    def __cinit__(self):
        self.c.pidfd = -1
        self.c.grace_ns = GRACE_NS
        self.c.spin_ns = HOST_SPIN_NS if usable_cores() > 1 else 0
        self.c.host = getpid()

    def acquire(self, look):
        """Take the lock; `look` is called every few milliseconds, and ends the wait by raising."""
        cdef bint held
        while True:
            with nogil:
                held = dvt_worker_try(&self.c, SLICE_NS)
            if held:
                return
            look()

    def release(self):
        """Let go of the lock."""
        dvt_worker_release(&self.c)

    def attach(self, SharedBytes channel not None, int pidfd):
        """Speak with a new process; the descriptor is this object's from now on."""
        if channel.nbytes < sizeof(dvt_channel):
            raise ValueError("a channel needs more memory")
        self.detach()
        self.channel = channel
        self.c.channel, self.c.pidfd, self.c.alive = <dvt_channel *>channel.address, pidfd, True
        self.c.was_killed = False
        self.c.requests = 0
        self.c.generation += 1

    def detach(self):
        """Kill the process, if there is one, and speak with none."""
        if self.c.pidfd >= 0:
            if getpid() == self.c.host:
                dvt_worker_kill(&self.c)
            close(self.c.pidfd)  # not Python's: at the end of the interpreter its modules are gone
        self.c.pidfd, self.c.alive, self.c.channel = -1, False, NULL
        self.channel = None

    def ask_to_look(self):
        """Ask the process to look at its socket; returns the number of the request."""
        return dvt_ask(&self.c, DVT_LOOK_AT_SOCKET, 0)

    def kill(self):
        """End the process."""
        dvt_worker_kill(&self.c)

    @property
    def is_alive(self):
        """Whether there is a process that can be asked."""
        if self.c.alive and dvt_has_ended(&self.c):
            self.c.alive = False
        return bool(self.c.alive)

    @property
    def was_killed(self):
        """Whether the latest process was ended because it did not stop a run."""
        return bool(self.c.was_killed)

    @property
    def generation(self):
        """How many processes there were."""
        return self.c.generation

    @property
    def successes(self):
        """How many runs all processes answered."""
        return self.c.successes

    def text(self):
        """Return the text of the latest answer, whatever the process made of it."""
        cdef size_t nbytes
        if self.c.channel == NULL:
            return b""
        nbytes = min(<size_t>self.c.channel.text_bytes, <size_t>DVT_CHANNEL_TEXT)
        return PyBytes_FromStringAndSize(self.c.channel.text, nbytes)

    def __dealloc__(self):
        self.detach()


class StoppedError(Exception):
    """A run that waited for a process was to end."""


@cython.final
@cython.no_gc
cdef class CallUnderWay:
    """The run on whose behalf a process is started."""

    cdef const dovetail_call *call

    def look(self):
        """Raise `StoppedError` once the run should end."""
        cdef int answer
        with nogil:
            answer = self.call.host.is_cancelled(self.call)
        if answer:
            raise StoppedError("the run was to end")


cdef int revive(void *owner, const dovetail_call *call) noexcept with gil:
    cdef IsolatedCall self = <IsolatedCall>owner
    cdef CallUnderWay under_way = CallUnderWay.__new__(CallUnderWay)
    under_way.call = call
    try:
        self.part.revive(under_way.look)
        self.c.generation = self.worker.c.generation
        return DOVETAIL_OK
    except StoppedError:
        return DOVETAIL_CANCELLED
    except BaseException as error:
        return _fail(call, DOVETAIL_FAILED, error)


cdef int explain(void *owner, const dovetail_call *call, int status) noexcept with gil:
    cdef IsolatedCall self = <IsolatedCall>owner
    if status == DOVETAIL_FORKED:
        return call.host.fail(call, DOVETAIL_FORKED, b"the process was forked")
    try:
        error = self.part.failure(status)
    except BaseException as raised:
        error = raised
    return _fail(call, DOVETAIL_OUT_OF_MEMORY if status == DOVETAIL_OUT_OF_MEMORY else DOVETAIL_FAILED, error)


cdef int _fail(const dovetail_call *call, int status, error) noexcept:
    """Have the runner raise an error, or name it as the cause."""
    (<object>(<dvt_context *>call.context).owner).exception = error
    try:
        text = (getattr(error, "text_of_child", "") or described(error)).encode("utf-8", "backslashreplace")
    except BaseException:
        text = b"its error cannot be printed"
    return call.host.fail(call, status, PyBytes_AS_STRING(text))


@cython.final
@cython.no_gc
cdef class IsolatedCall:
    """The workload of a part in a worker process.

    Args:
        worker: The process.
        part: What it is asked of: `revive(look)` makes sure that a process has loaded it, and
            `failure(status)` returns the error for a status.
        number: Of the part in the process.
        memory: Where its tensors lie.
        places: Offset and size of each, in bytes: of the inputs, then of the outputs.
        inputs: How many of them are inputs.
        private_bytes: What is held for it, in the process and here.
    """

    cdef dvt_isolated_part c
    cdef WorkerEnd worker
    cdef object part
    cdef SharedBytes memory
    cdef size_t *numbers
    cdef size_t private_bytes

    def __cinit__(
        self, WorkerEnd worker not None, part, int number, SharedBytes memory not None, list places, int inputs,
        size_t private_bytes,
    ):
        cdef Py_ssize_t i, count = len(places)
        self.worker, self.part, self.memory, self.private_bytes = worker, part, memory, private_bytes
        self.numbers = <size_t *>PyMem_RawCalloc(2 * count + 1, sizeof(size_t))
        if self.numbers == NULL:
            raise MemoryError()
        for i in range(count):
            self.numbers[i], self.numbers[count + i] = places[i]
            if self.numbers[i] + self.numbers[count + i] > memory.nbytes:
                raise ValueError("a tensor lies beyond the shared memory")
        self.c.worker, self.c.owner, self.c.number = &worker.c, <void *>self, number
        self.c.memory, self.c.offsets, self.c.bytes = memory.address, self.numbers, self.numbers + count
        self.c.n_inputs, self.c.n_outputs = inputs, count - inputs
        self.c.revive, self.c.explain = revive, explain
        self.c.generation = worker.c.generation

    def __dovetail_workload__(self):
        """Return the capsule; whoever takes it holds this object too."""
        cdef dovetail_workload *workload
        capsule = workload_capsule(dvt_isolated_execute, &self.c, NULL, &workload)
        workload.private_bytes = self.private_bytes
        return capsule

    def __dealloc__(self):
        PyMem_RawFree(self.numbers)


@cython.final
@cython.no_gc
cdef class ServingEnd:
    """The worker's end.

    Args:
        channel: The shared memory.
    """

    cdef SharedBytes memory
    cdef dvt_channel *channel
    cdef uint32_t request
    cdef int64_t taken_ns, spin_ns
    cdef dvt_patience patience

    def __cinit__(self, SharedBytes channel not None):
        if channel.nbytes < sizeof(dvt_channel):
            raise ValueError("a channel needs more memory")
        self.memory, self.channel = channel, <dvt_channel *>channel.address
        self.spin_ns = SPIN_NS if usable_cores() > 1 else 0

    def next(self):
        """Wait for a request; return (number of the part, deadline in nanoseconds or 0).

        The number is negative for a look at the socket.
        """
        cdef uint32_t last = self.request
        with nogil:
            self.request = dvt_next_request(self.channel, last, self.spin_ns, &self.patience, &self.taken_ns)
        self.channel.n_spans = 0
        return self.channel.part, self.channel.deadline

    @property
    def is_profiled(self):
        """Whether the request wants times of devices."""
        return bool(self.channel.is_profiled)

    def tell(self, list spans):
        """Write when devices worked: (name, begin, end) each, in nanoseconds; the rest is left out.

        A name that is too long is cut.
        """
        cdef int i, count = min(len(spans), <int>DVT_CHANNEL_SPANS)
        cdef size_t nbytes
        cdef bytes text
        for i in range(count):
            name, begin, end = spans[i]
            text = name.encode("utf-8", "replace")[:<int>DVT_CHANNEL_SPAN_NAME - 1].decode("utf-8", "ignore").encode() + b"\0"
            nbytes = len(text)
            memcpy(self.channel.spans[i].name, PyBytes_AS_STRING(text), nbytes)
            self.channel.spans[i].begin, self.channel.spans[i].end = begin, end
        self.channel.n_spans = count

    def answer(self, int status, bytes text=b""):
        """Answer the request."""
        cdef uint32_t nbytes = min(<size_t>len(text), <size_t>DVT_CHANNEL_TEXT)
        memcpy(self.channel.text, PyBytes_AS_STRING(text), nbytes)
        dvt_answer_request(self.channel, self.request, self.taken_ns, status, nbytes)

    @property
    def is_stopped(self):
        """Whether the request is to end early."""
        return self.channel.stopped == self.request
