"""What Cython sees of the headers in this folder."""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, intptr_t, uint32_t, uint64_t

from dovetail.abi cimport dovetail_alias, dovetail_call, dovetail_queues, dovetail_workload

cdef extern from "opencl.h" nogil:
    ctypedef int32_t cl_int
    ctypedef uint32_t cl_uint
    ctypedef uint64_t cl_ulong
    ctypedef uint64_t cl_bitfield
    ctypedef void *cl_platform_id
    ctypedef void *cl_device_id
    ctypedef void *cl_context
    ctypedef void *cl_command_queue
    ctypedef void *cl_mem
    ctypedef void *cl_program
    ctypedef void *cl_kernel
    ctypedef void *cl_event

    cl_int CL_SUCCESS, CL_DEVICE_NOT_FOUND, CL_DEVICE_NOT_AVAILABLE, CL_PLATFORM_NOT_FOUND, CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY
    cl_int CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_INVALID_BUFFER_SIZE, CL_BUILD_PROGRAM_FAILURE, CL_COMPILER_NOT_AVAILABLE
    cl_uint CL_PLATFORM_VERSION, CL_PLATFORM_NAME, CL_PLATFORM_VENDOR
    cl_uint CL_DEVICE_TYPE, CL_DEVICE_MAX_COMPUTE_UNITS, CL_DEVICE_MAX_WORK_GROUP_SIZE, CL_DEVICE_MAX_MEM_ALLOC_SIZE
    cl_uint CL_DEVICE_MEM_BASE_ADDR_ALIGN, CL_DEVICE_GLOBAL_MEM_SIZE, CL_DEVICE_LOCAL_MEM_TYPE, CL_DEVICE_LOCAL_MEM_SIZE
    cl_uint CL_DEVICE_SINGLE_FP_CONFIG, CL_DEVICE_AVAILABLE, CL_DEVICE_COMPILER_AVAILABLE, CL_DEVICE_NAME, CL_DEVICE_VENDOR, CL_DRIVER_VERSION
    cl_uint CL_DEVICE_VERSION, CL_DEVICE_EXTENSIONS, CL_DEVICE_HOST_UNIFIED_MEMORY, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT
    cl_uint CL_DEVICE_OPENCL_C_VERSION, CL_DEVICE_SVM_CAPABILITIES, CL_DEVICE_MAX_NUM_SUB_GROUPS
    cl_uint CL_DEVICE_OPENCL_C_FEATURES, CL_DEVICE_INTEGER_DOT_PRODUCT_ACCELERATION_PROPERTIES_4x8BIT_PACKED
    cl_uint CL_PROGRAM_BINARY_SIZES, CL_PROGRAM_BINARIES, CL_PROGRAM_BUILD_LOG
    cl_bitfield CL_DEVICE_TYPE_CPU, CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_ACCELERATOR, CL_DEVICE_TYPE_ALL
    cl_bitfield CL_DEVICE_SVM_FINE_GRAIN_BUFFER, CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT
    cl_int CL_COMPLETE
    intptr_t CL_CONTEXT_PLATFORM
    cl_bitfield CL_MEM_READ_WRITE, CL_MEM_READ_ONLY, CL_MEM_USE_HOST_PTR, CL_MEM_COPY_HOST_PTR, CL_MEM_ALLOC_HOST_PTR
    cl_bitfield CL_MEM_SVM_FINE_GRAIN_BUFFER, CL_MAP_READ, CL_MAP_WRITE_INVALIDATE_REGION

    ctypedef struct opencl:
        cl_int (*clGetPlatformIDs)(cl_uint, cl_platform_id *, cl_uint *) noexcept nogil
        cl_int (*clGetPlatformInfo)(cl_platform_id, cl_uint, size_t, void *, size_t *) noexcept nogil
        cl_int (*clGetDeviceIDs)(cl_platform_id, cl_bitfield, cl_uint, cl_device_id *, cl_uint *) noexcept nogil
        cl_int (*clGetDeviceInfo)(cl_device_id, cl_uint, size_t, void *, size_t *) noexcept nogil
        cl_context (*clCreateContext)(const intptr_t *, cl_uint, const cl_device_id *, void *, void *, cl_int *) noexcept nogil
        cl_command_queue (*clCreateCommandQueue)(cl_context, cl_device_id, cl_bitfield, cl_int *) noexcept nogil
        cl_int (*clReleaseContext)(cl_context) noexcept nogil
        cl_int (*clFlush)(cl_command_queue) noexcept nogil
        cl_int (*clReleaseEvent)(cl_event) noexcept nogil
        cl_mem (*clCreateBuffer)(cl_context, cl_bitfield, size_t, void *, cl_int *) noexcept nogil
        cl_int (*clReleaseMemObject)(cl_mem) noexcept nogil
        cl_program (*clCreateProgramWithSource)(cl_context, cl_uint, const char **, const size_t *, cl_int *) noexcept nogil
        cl_program (*clCreateProgramWithBinary)(
            cl_context, cl_uint, const cl_device_id *, const size_t *, const unsigned char **, cl_int *, cl_int *) noexcept nogil
        cl_int (*clBuildProgram)(cl_program, cl_uint, const cl_device_id *, const char *, void *, void *) noexcept nogil
        cl_int (*clRetainProgram)(cl_program) noexcept nogil
        cl_int (*clReleaseProgram)(cl_program) noexcept nogil
        cl_int (*clGetProgramInfo)(cl_program, cl_uint, size_t, void *, size_t *) noexcept nogil
        cl_int (*clGetProgramBuildInfo)(cl_program, cl_device_id, cl_uint, size_t, void *, size_t *) noexcept nogil
        cl_kernel (*clCreateKernel)(cl_program, const char *, cl_int *) noexcept nogil
        cl_int (*clReleaseKernel)(cl_kernel) noexcept nogil
        void *(*clEnqueueMapBuffer)(
            cl_command_queue, cl_mem, uint32_t, cl_bitfield, size_t, size_t, cl_uint, const cl_event *, cl_event *,
            cl_int *) noexcept nogil
        cl_int (*clEnqueueUnmapMemObject)(cl_command_queue, cl_mem, void *, cl_uint, const cl_event *, cl_event *) noexcept nogil
        void *(*clSVMAlloc)(cl_context, cl_bitfield, size_t, cl_uint) noexcept nogil
        void (*clSVMFree)(cl_context, void *) noexcept nogil

    int opencl_load(opencl *table, const char *const *libraries, char *why, size_t room)
    int host_multiplies_bytes()
    const char *opencl_error_name(cl_int code)

cdef extern from "device_handle.h" nogil:
    ctypedef struct device_handle:
        const opencl *cl
        cl_context context
        cl_device_id device
        int64_t process
        int32_t spins
        int32_t is_coherent
        size_t staged_from
        size_t chunk
        int is_lost
        int64_t freed
    int is_loss(device_handle *device, cl_int code)

cdef extern from "events.h" nogil:
    cl_int await_event(const opencl *cl, cl_event event, int64_t nanoseconds)

cdef extern from "queue.h" nogil:
    int queue_table(device_handle *device, int32_t fail_at, dovetail_queues *table)

cdef extern from "signals.h" nogil:
    void signals_keep()
    void signals_put_back(const void *host)

cdef extern from "launch.h" nogil:
    int MAX_VALUE
    ctypedef enum argument_kind:
        ARGUMENT_INPUT, ARGUMENT_OUTPUT, ARGUMENT_SCRATCH, ARGUMENT_CONSTANT, ARGUMENT_VALUE, ARGUMENT_LOCAL, ARGUMENT_REPORTS
    ctypedef struct argument:
        argument_kind kind
        int32_t index
        uint64_t offset
        size_t size
        unsigned char value[256]
    ctypedef struct launch:
        cl_program program
        char name[64]
        cl_uint dimensions
        size_t sizes "global"[3]
        int32_t alias
        size_t group "local"[3]
        int32_t n_arguments
        argument *arguments
    ctypedef enum work_kind:
        WORK_LAUNCHES, WORK_COPY_IN, WORK_COPY_OUT, WORK_COPY_INSIDE
    ctypedef struct launch_list:
        device_handle *device
        work_kind work
        char name[256]
        int32_t n_launches
        launch *launches
        int32_t n_constants
        cl_mem *constants
        size_t scratch
        size_t copied
        int is_elidable
        int32_t n_aliases
        dovetail_alias *aliases
    int launch_execute(void *state, const dovetail_call *call) noexcept
    void launch_release(void *state) noexcept
    void launch_describe(launch_list *list, dovetail_workload *workload)
