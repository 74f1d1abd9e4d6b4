"""The device, and binaries on it. One thread at a time for each executable."""

from cpython.buffer cimport PyBUF_WRITE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stddef cimport size_t
from libc.stdint cimport int8_t, int32_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset
from posix.stdlib cimport posix_memalign
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec
from posix.unistd cimport getpid

from dovetail.ground.errors import ErrorCode

from dovetail_npu_vsi.ovx.library cimport VX, check
from dovetail_npu_vsi.ovx.vivante cimport *

from ..errors import VsiError

_DTYPES = {     # NumPy's names, and bytes
    VX_TYPE_INT8: ("int8", 1),
    VX_TYPE_UINT8: ("uint8", 1),
    VX_TYPE_INT16: ("int16", 2),
    VX_TYPE_UINT16: ("uint16", 2),
    VX_TYPE_INT32: ("int32", 4),
    VX_TYPE_UINT32: ("uint32", 4),
    VX_TYPE_FLOAT32: ("float32", 4),
    VX_TYPE_FLOAT16: ("float16", 2),
    VX_TYPE_BOOL8: ("bool", 1),
}

_KINDS = {name: (kind, nbytes) for kind, (name, nbytes) in _DTYPES.items()}

cdef enum:
    ALIGNMENT = 64      # of memory that tensors are laid in, and what its size is a multiple of
    MOST_AXES = 8
    MOST_OPERANDS = 64


cdef class Device:
    """The device, open until this object goes.

    Attributes:
        target: Id of its chip; 0 where the driver does not say.
        implementation: What the driver calls itself.
        version: Of OpenVX that it has, such as "1.3".
    """

    cdef vx_context context
    cdef int process
    cdef readonly int target
    cdef readonly str implementation
    cdef readonly str version

    def __cinit__(self):
        cdef vx_hardware_caps_params_t facts
        cdef char name[64]  # drivers refuse longer ones
        cdef uint16_t version = 0
        with nogil:
            self.context = VX.vxCreateContext()
        if self.context == NULL:
            raise VsiError(
                "vxCreateContext failed: the device cannot be opened",
                code=ErrorCode.BACKEND_UNAVAILABLE,
                hint="see whether this user may read and write /dev/galcore, and what dmesg says of it",
            )
        self.process = getpid()
        if VX.vxDirective != NULL:  # graphs that are verified before it are not measured; what is costs two looks at a clock
            VX.vxDirective(<vx_reference>self.context, VX_DIRECTIVE_ENABLE_PERFORMANCE)
        check(VX.vxGetStatus(<vx_reference>self.context), "the device cannot be opened")
        if VX.vxQueryHardwareCaps != NULL:
            memset(&facts, 0, sizeof(facts))
            if (
                VX.vxQueryHardwareCaps(self.context, &facts, sizeof(facts)) == VX_SUCCESS
                or VX.vxQueryHardwareCaps(self.context, &facts, sizeof(facts) - sizeof(uint32_t)) == VX_SUCCESS
            ):
                self.target = facts.customer
        memset(name, 0, sizeof(name))
        VX.vxQueryContext(self.context, VX_CONTEXT_IMPLEMENTATION, name, sizeof(name))
        name[sizeof(name) - 1] = 0
        self.implementation = (<bytes>name).decode("utf-8", "replace")
        VX.vxQueryContext(self.context, VX_CONTEXT_VERSION, &version, sizeof(version))
        self.version = f"{version >> 8}.{version & 255}"

    def __dealloc__(self):
        if self.context != NULL and self.process == getpid():
            VX.vxReleaseContext(&self.context)


cdef struct operand:
    vx_tensor tensor
    uint8_t *own            # memory for the tensor, which is used where the bound one cannot be
    uint8_t *bound
    size_t size             # bytes
    bint is_output
    bint is_direct          # the tensor lies in what is bound


cdef uint64_t now_ns() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <uint64_t>now.tv_sec * 1_000_000_000 + <uint64_t>now.tv_nsec


cdef class Binary:
    """A binary on the device.

    Attributes:
        operands: Of each operand in the binary's order, inputs first: whether it is an output, its
            shape, dtype, scale (None if it has none) and zero point.
    """

    cdef Device device
    cdef bytes content      # the driver may read it until the kernel is released
    cdef vx_kernel kernel
    cdef vx_graph graph
    cdef vx_node node
    cdef operand parts[MOST_OPERANDS]
    cdef int n_parts
    cdef bint shares_memory     # bound memory is given to the device where that can be
    cdef bint is_running
    cdef uint64_t submitted, waited      # CLOCK_MONOTONIC nanoseconds; 0: the last run did not end well
    cdef uint64_t runs_measured
    cdef readonly list operands

    def __init__(self, Device device not None, bytes content not None, bint shares_memory):
        cdef const char *place = content
        self.device, self.content, self.shares_memory = device, content, shares_memory
        with nogil:
            self.kernel = VX.vxImportKernelFromURL(device.context, "vx_vivante_pointer", place)
        if self.kernel == NULL:
            raise VsiError("the driver does not take the binary: vxImportKernelFromURL failed")
        check(VX.vxGetStatus(<vx_reference>self.kernel), "the driver does not take the binary")
        try:
            self.operands = self._asked()
            self._make()
        except BaseException:
            self.close()
            raise

    def __dealloc__(self):
        self.close()

    # -- what the binary says of its operands ------------------------------------------------------

    cdef list _asked(self):
        cdef uint32_t count = 0
        cdef uint32_t i
        check(VX.vxQueryKernel(self.kernel, VX_KERNEL_PARAMETERS, &count, sizeof(count)), "the binary does not tell its operands")
        if not 0 < count <= MOST_OPERANDS:
            raise VsiError(f"a binary has {count} operands; 1 to {MOST_OPERANDS} were expected")
        return [self._asked_one(i) for i in range(count)]

    cdef tuple _asked_one(self, uint32_t index):
        cdef vx_parameter parameter = VX.vxGetKernelParameterByIndex(self.kernel, index)
        cdef vx_meta_format format = NULL
        cdef vx_enum direction = 0, kind = 0, dtype = 0, quantization = 0
        cdef size_t rank = 0
        cdef size_t sizes[MOST_AXES]
        cdef float scale = 0
        cdef int32_t zero_point = 0
        cdef int8_t position = 0
        cdef size_t i
        what = f"the binary does not tell its operand {index}"
        if parameter == NULL:
            raise VsiError(what)
        try:
            check(VX.vxQueryParameter(parameter, VX_PARAMETER_DIRECTION, &direction, sizeof(direction)), what)
            check(VX.vxQueryParameter(parameter, VX_PARAMETER_TYPE, &kind, sizeof(kind)), what)
            if kind != VX_TYPE_TENSOR:
                raise VsiError(f"operand {index} of the binary is of type {kind:#x}; a tensor, {VX_TYPE_TENSOR:#x}, was expected")
            check(VX.vxQueryParameter(parameter, VX_PARAMETER_META_FORMAT, &format, sizeof(format)), what)
            check(VX.vxQueryMetaFormatAttribute(format, VX_TENSOR_NUMBER_OF_DIMS, &rank, sizeof(rank)), what)
            if not 0 < rank <= MOST_AXES:
                raise VsiError(f"operand {index} of the binary has {rank} axes; 1 to {MOST_AXES} were expected")
            check(VX.vxQueryMetaFormatAttribute(format, VX_TENSOR_DIMS, sizes, rank * sizeof(size_t)), what)
            check(VX.vxQueryMetaFormatAttribute(format, VX_TENSOR_DATA_TYPE, &dtype, sizeof(dtype)), what)
            if dtype not in _DTYPES:
                raise VsiError(f"operand {index} of the binary has elements of type {dtype}, which is not known")
            shape = tuple([sizes[rank - 1 - i] for i in range(rank)])
            if not all(0 < size < 1 << 31 for size in shape):
                raise VsiError(f"operand {index} of the binary has the shape {shape}")
            # A driver that does not know these has no quantization to tell.
            VX.vxQueryMetaFormatAttribute(format, VX_TENSOR_QUANT_FORMAT, &quantization, sizeof(quantization))
            if quantization == VX_QUANT_AFFINE_SCALE:
                check(VX.vxQueryMetaFormatAttribute(format, VX_TENSOR_SCALE, &scale, sizeof(scale)), what)
                check(VX.vxQueryMetaFormatAttribute(format, VX_TENSOR_ZERO_POINT, &zero_point, sizeof(zero_point)), what)
                return direction == VX_OUTPUT, shape, _DTYPES[dtype][0], scale, zero_point
            if quantization == VX_QUANT_DYNAMIC_FIXED_POINT:
                check(VX.vxQueryMetaFormatAttribute(format, VX_TENSOR_FIXED_POINT_POSITION, &position, sizeof(position)), what)
                return direction == VX_OUTPUT, shape, _DTYPES[dtype][0], 2.0 ** -position, 0
            return direction == VX_OUTPUT, shape, _DTYPES[dtype][0], None, 0
        finally:
            VX.vxReleaseParameter(&parameter)

    # -- making ------------------------------------------------------------------------------------

    cdef int _make(self) except -1:
        cdef int i
        cdef vx_status status
        with nogil:
            self.graph = VX.vxCreateGraph(self.device.context)
        if self.graph == NULL:
            raise VsiError("vxCreateGraph failed")
        check(VX.vxGetStatus(<vx_reference>self.graph), "vxCreateGraph failed")
        with nogil:
            self.node = VX.vxCreateGenericNode(self.graph, self.kernel)
        if self.node == NULL:
            raise VsiError("vxCreateGenericNode failed")
        check(VX.vxGetStatus(<vx_reference>self.node), "vxCreateGenericNode failed")
        for i, (is_output, shape, dtype, scale, zero_point) in enumerate(self.operands):
            self.n_parts = i + 1
            self._make_operand(&self.parts[i], shape, dtype, scale, zero_point)
            self.parts[i].is_output = is_output
            check(
                VX.vxSetParameterByIndex(self.node, i, <vx_reference>self.parts[i].tensor),
                f"operand {i} of the binary cannot be set",
            )
        with nogil:
            status = VX.vxVerifyGraph(self.graph)
        check(status, "the driver does not put the binary on the device: vxVerifyGraph failed")
        return 0

    cdef int _make_operand(self, operand *part, shape, str dtype, scale, int zero_point) except -1:
        """Make a tensor in memory of its own."""
        cdef vx_tensor_create_params_t described
        cdef vx_tensor_addressing addressing
        cdef uint32_t sizes[MOST_AXES]
        cdef uint32_t strides[MOST_AXES]
        cdef uint32_t told[MOST_AXES]
        cdef uint64_t bytes_so_far
        cdef vx_enum kind
        cdef int i, rank = len(shape)
        cdef void *memory = NULL
        kind, bytes_so_far = _KINDS[dtype]
        memset(&described, 0, sizeof(described))
        for i in range(rank):
            sizes[i], strides[i] = shape[rank - 1 - i], <uint32_t>bytes_so_far
            bytes_so_far *= sizes[i]
            if bytes_so_far >> 31:
                raise VsiError(f"an operand of shape {shape} has 2 GiB or more")
        part.size = bytes_so_far
        if posix_memalign(&memory, ALIGNMENT, (part.size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT) != 0:
            raise MemoryError()
        part.own = <uint8_t *>memory
        part.bound, part.is_direct = part.own, True
        memset(memory, 0, part.size)
        described.num_of_dims, described.sizes, described.data_format = rank, sizes, kind
        if scale is not None:
            described.quant_format = VX_QUANT_AFFINE_SCALE
            described.quant_data.affine.scale, described.quant_data.affine.zero_point = scale, zero_point
        addressing = VX.vxCreateTensorAddressing(self.device.context, sizes, strides, rank)
        if addressing == NULL:
            raise VsiError("vxCreateTensorAddressing failed")
        with nogil:
            part.tensor = VX.vxCreateTensorFromHandle2(
                self.device.context, &described, sizeof(described), addressing, part.own, VX_MEMORY_TYPE_HOST)
        VX.vxReleaseTensorAddressing(&addressing)
        if part.tensor == NULL:
            raise VsiError(f"vxCreateTensorFromHandle2 failed for an operand of shape {shape}")
        check(VX.vxGetStatus(<vx_reference>part.tensor), f"vxCreateTensorFromHandle2 failed for an operand of shape {shape}")
        memset(told, 0, sizeof(told))
        VX.vxQueryTensor(part.tensor, VX_TENSOR_DIMS, told, rank * sizeof(uint32_t))
        if any([told[i] != sizes[i] for i in range(rank)]):
            raise VsiError(
                "OpenVX takes sizes otherwise than as numbers of 32 bits; it may be built for addresses of 40 bits, which is not "
                "supported"
            )
        return 0

    def memories(self):
        """Return the memory of each operand, as bytes.

        The tensors lie in it until something is bound. It must not be touched once the binary is
        closed.
        """
        return [
            PyMemoryView_FromMemory(<char *>self.parts[i].own, self.parts[i].size, PyBUF_WRITE) for i in range(self.n_parts)
        ]

    # -- running -----------------------------------------------------------------------------------

    def bind(self, addresses):
        """Set where each operand lies, in the order of `operands`, for the runs that follow."""
        cdef int i
        cdef uintptr_t address
        if len(addresses) != self.n_parts:
            raise VsiError(f"{len(addresses)} addresses were bound to a binary of {self.n_parts} operands")
        for i in range(self.n_parts):
            address = addresses[i]
            self._bind(&self.parts[i], <uint8_t *>address)

    cdef int _bind(self, operand *part, uint8_t *place) except -1:
        """Lay the tensor into what is bound if that can be, else into its own memory."""
        cdef bint fits = self.shares_memory and <uintptr_t>place % ALIGNMENT == 0 and part.size % ALIGNMENT == 0
        cdef uint8_t *wanted = place if fits else part.own
        cdef uint8_t *now = part.bound if part.is_direct else part.own
        if wanted != now and VX.vxSwapTensorHandle(part.tensor, wanted, NULL) != VX_SUCCESS:
            # Such as memory that the device cannot reach, or that another tensor lies in.
            wanted = part.own
            if now != wanted:
                check(VX.vxSwapTensorHandle(part.tensor, wanted, NULL), "an operand cannot be bound")
        part.bound, part.is_direct = place, wanted == place
        return 0

    def submit(self):
        """Start a run."""
        cdef int i
        cdef vx_status status = VX_SUCCESS
        self._must_be_usable()
        self.waited = 0
        self.runs_measured = self._asked_performance().num
        with nogil:
            self.submitted = now_ns()
            for i in range(self.n_parts):
                if not self.parts[i].is_output:
                    if not self.parts[i].is_direct:
                        memcpy(self.parts[i].own, self.parts[i].bound, self.parts[i].size)
                    status = VX.vxFlushHandle(<vx_reference>self.parts[i].tensor)
                    if status != VX_SUCCESS:
                        break
            if status == VX_SUCCESS:
                status = VX.vxScheduleGraph(self.graph)
        check(status, "a run cannot be started")
        self.is_running = True

    def wait(self):
        """Return when the run has ended.

        Raises:
            VsiError: It failed.
        """
        cdef int i
        cdef vx_status status
        if not self.is_running:
            return
        self.is_running = False
        with nogil:
            status = VX.vxWaitGraph(self.graph)
            if status == VX_SUCCESS:
                self.waited = now_ns()
            for i in range(self.n_parts):
                if status == VX_SUCCESS and self.parts[i].is_output:
                    status = self._fetch(&self.parts[i])
        check(status, "the device reports that a run failed")

    cdef vx_perf_t _asked_performance(self) noexcept:
        """What the driver measured so far; zeroed where it does not measure."""
        cdef vx_perf_t found
        memset(&found, 0, sizeof(found))
        if VX.vxQueryGraph == NULL or VX.vxQueryGraph(self.graph, VX_GRAPH_PERFORMANCE, &found, sizeof(found)) != VX_SUCCESS:
            memset(&found, 0, sizeof(found))
        return found

    def performance(self):
        """Return when the last run began and how long it took, by the driver: seconds.

        The begin is on the clock of `time.monotonic`. It is None where the driver does not measure,
        and where it says what cannot be: more than the run took by the host's clock. A driver whose
        clock is another one tells how long alone; the run ended then when it was waited for.
        """
        if self.graph == NULL or self.waited == 0:
            return None
        cdef vx_perf_t found = self._asked_performance()
        cdef uint64_t begin = found.beg
        if found.num <= self.runs_measured or not 0 < found.tmp <= self.waited - self.submitted:
            return None
        if not self.submitted <= begin <= self.waited - found.tmp:
            begin = self.waited - found.tmp
        return begin / 1e9, found.tmp / 1e9

    cdef vx_status _fetch(self, operand *part) noexcept nogil:
        """Have what the device wrote in the bound memory."""
        cdef vx_status status
        cdef void *place = NULL
        if VX.vxInvalidateHandleVSI != NULL:
            status = VX.vxInvalidateHandleVSI(<vx_reference>part.tensor)
        else:   # taking the memory away brings it up to date
            status = VX.vxSwapTensorHandle(part.tensor, NULL, &place)
            if status == VX_SUCCESS:
                status = VX.vxSwapTensorHandle(part.tensor, place, NULL)
        if status == VX_SUCCESS and not part.is_direct:
            memcpy(part.bound, part.own, part.size)
        return status

    cdef int _must_be_usable(self) except -1:
        if self.graph == NULL:
            raise VsiError("a binary was run that is closed")
        if self.device.process != getpid():
            raise VsiError(
                "the device was opened by the process that this one was forked from",
                hint="start processes by 'spawn', or use the backend in the child alone: no driver survives fork()",
            )
        return 0

    def close(self):
        """Free what is on the device; harmless when called again."""
        cdef int i
        if self.device is None or self.device.process != getpid():
            return
        if self.is_running:
            self.is_running = False
            with nogil:
                VX.vxWaitGraph(self.graph)
        if self.node != NULL:
            VX.vxReleaseNode(&self.node)
        if self.graph != NULL:
            VX.vxReleaseGraph(&self.graph)
        for i in range(self.n_parts):
            if self.parts[i].tensor != NULL:
                VX.vxReleaseTensor(&self.parts[i].tensor)
            free(self.parts[i].own)
            self.parts[i].own = NULL
        self.n_parts = 0
        if self.kernel != NULL:
            VX.vxReleaseKernel(&self.kernel)
