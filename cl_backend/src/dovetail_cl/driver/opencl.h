/* What is used of the OpenCL 1.2 API, and where its functions are once a driver was loaded.
 *
 * Declared here, and found by dlsym: nothing of OpenCL is needed to build or to import. Types and
 * numbers are those of the Khronos OpenCL specification, whose objects are opaque pointers. */
#ifndef DOVETAIL_CL_OPENCL_H
#define DOVETAIL_CL_OPENCL_H

#include <stddef.h>
#include <stdint.h>

typedef int32_t cl_int;
typedef uint32_t cl_uint;
typedef uint32_t cl_bool;
typedef uint64_t cl_ulong;
typedef uint64_t cl_bitfield;
typedef struct _cl_platform_id *cl_platform_id;
typedef struct _cl_device_id *cl_device_id;
typedef struct _cl_context *cl_context;
typedef struct _cl_command_queue *cl_command_queue;
typedef struct _cl_mem *cl_mem;
typedef struct _cl_program *cl_program;
typedef struct _cl_kernel *cl_kernel;
typedef struct _cl_event *cl_event;

enum {
    CL_SUCCESS = 0,
    CL_DEVICE_NOT_FOUND = -1,
    CL_DEVICE_NOT_AVAILABLE = -2,
    CL_COMPILER_NOT_AVAILABLE = -3,
    CL_MEM_OBJECT_ALLOCATION_FAILURE = -4,
    CL_OUT_OF_RESOURCES = -5,
    CL_OUT_OF_HOST_MEMORY = -6,
    CL_BUILD_PROGRAM_FAILURE = -11,
    CL_EXEC_STATUS_ERROR = -14,
    CL_INVALID_DEVICE = -33,
    CL_INVALID_CONTEXT = -34,
    CL_INVALID_COMMAND_QUEUE = -36,
    CL_INVALID_BINARY = -42,
    CL_INVALID_BUFFER_SIZE = -61,
    CL_PLATFORM_NOT_FOUND = -1001,
    CL_NVIDIA_ILLEGAL_ACCESS = -9999,

    CL_COMPLETE = 0,

    CL_PLATFORM_VERSION = 0x0901,
    CL_PLATFORM_NAME = 0x0902,
    CL_PLATFORM_VENDOR = 0x0903,

    CL_DEVICE_TYPE = 0x1000,
    CL_DEVICE_MAX_COMPUTE_UNITS = 0x1002,
    CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004,
    CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010,
    CL_DEVICE_MEM_BASE_ADDR_ALIGN = 0x1019,
    CL_DEVICE_GLOBAL_MEM_SIZE = 0x101F,
    CL_DEVICE_LOCAL_MEM_TYPE = 0x1022,
    CL_DEVICE_LOCAL_MEM_SIZE = 0x1023,
    CL_DEVICE_SINGLE_FP_CONFIG = 0x101B,
    CL_DEVICE_AVAILABLE = 0x1027,
    CL_DEVICE_COMPILER_AVAILABLE = 0x1028,
    CL_DEVICE_NAME = 0x102B,
    CL_DEVICE_VENDOR = 0x102C,
    CL_DRIVER_VERSION = 0x102D,
    CL_DEVICE_VERSION = 0x102F,
    CL_DEVICE_EXTENSIONS = 0x1030,
    CL_DEVICE_HOST_UNIFIED_MEMORY = 0x1035,
    CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT = 0x103A,
    CL_DEVICE_OPENCL_C_VERSION = 0x103D,
    CL_DEVICE_SVM_CAPABILITIES = 0x1053,
    CL_DEVICE_MAX_NUM_SUB_GROUPS = 0x105C,
    CL_DEVICE_OPENCL_C_FEATURES = 0x106F,
    CL_DEVICE_INTEGER_DOT_PRODUCT_ACCELERATION_PROPERTIES_4x8BIT_PACKED = 0x1075,

    CL_DEVICE_SVM_FINE_GRAIN_BUFFER = 2,
    CL_LOCAL = 1,
    CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT = 0x80,

    CL_PROGRAM_BINARY_SIZES = 0x1165,
    CL_PROGRAM_BINARIES = 0x1166,
    CL_PROGRAM_BUILD_LOG = 0x1183,

    CL_EVENT_COMMAND_EXECUTION_STATUS = 0x11D3,

    CL_PROFILING_COMMAND_QUEUED = 0x1280,
    CL_PROFILING_COMMAND_START = 0x1282,
    CL_PROFILING_COMMAND_END = 0x1283,

    CL_MAP_READ = 1,
    CL_MAP_WRITE = 2,
    CL_MAP_WRITE_INVALIDATE_REGION = 4
};
#define CL_DEVICE_TYPE_CPU UINT64_C(2)
#define CL_DEVICE_TYPE_GPU UINT64_C(4)
#define CL_DEVICE_TYPE_ACCELERATOR UINT64_C(8)
#define CL_DEVICE_TYPE_ALL UINT64_C(0xFFFFFFFF)
#define CL_CONTEXT_PLATFORM ((intptr_t)0x1084)
#define CL_MEM_READ_WRITE UINT64_C(1)
#define CL_MEM_READ_ONLY UINT64_C(4)
#define CL_MEM_USE_HOST_PTR UINT64_C(8)
#define CL_MEM_ALLOC_HOST_PTR UINT64_C(16)
#define CL_MEM_COPY_HOST_PTR UINT64_C(32)
#define CL_MEM_SVM_FINE_GRAIN_BUFFER UINT64_C(1024)
#define CL_QUEUE_PROFILING_ENABLE UINT64_C(2)

typedef void (*opencl_event_callback)(cl_event event, cl_int status, void *arg);

/* Return type, name, parameters. */
#define OPENCL_FUNCTIONS(F)                                                                                                     \
    F(cl_int, clGetPlatformIDs, (cl_uint, cl_platform_id *, cl_uint *))                                                         \
    F(cl_int, clGetPlatformInfo, (cl_platform_id, cl_uint, size_t, void *, size_t *))                                           \
    F(cl_int, clGetDeviceIDs, (cl_platform_id, cl_bitfield, cl_uint, cl_device_id *, cl_uint *))                                \
    F(cl_int, clGetDeviceInfo, (cl_device_id, cl_uint, size_t, void *, size_t *))                                               \
    F(cl_context, clCreateContext, (const intptr_t *, cl_uint, const cl_device_id *, void *, void *, cl_int *))                 \
    F(cl_int, clReleaseContext, (cl_context))                                                                                   \
    F(cl_command_queue, clCreateCommandQueue, (cl_context, cl_device_id, cl_bitfield, cl_int *))                                \
    F(cl_int, clReleaseCommandQueue, (cl_command_queue))                                                                        \
    F(cl_int, clFlush, (cl_command_queue))                                                                                      \
    F(cl_int, clFinish, (cl_command_queue))                                                                                     \
    F(cl_mem, clCreateBuffer, (cl_context, cl_bitfield, size_t, void *, cl_int *))                                              \
    F(cl_int, clRetainMemObject, (cl_mem))                                                                                      \
    F(cl_int, clReleaseMemObject, (cl_mem))                                                                                     \
    F(cl_program, clCreateProgramWithSource, (cl_context, cl_uint, const char **, const size_t *, cl_int *))                    \
    F(cl_program, clCreateProgramWithBinary,                                                                                    \
      (cl_context, cl_uint, const cl_device_id *, const size_t *, const unsigned char **, cl_int *, cl_int *))                  \
    F(cl_int, clBuildProgram, (cl_program, cl_uint, const cl_device_id *, const char *, void *, void *))                        \
    F(cl_int, clRetainProgram, (cl_program))                                                                                    \
    F(cl_int, clReleaseProgram, (cl_program))                                                                                   \
    F(cl_int, clGetProgramInfo, (cl_program, cl_uint, size_t, void *, size_t *))                                                \
    F(cl_int, clGetProgramBuildInfo, (cl_program, cl_device_id, cl_uint, size_t, void *, size_t *))                             \
    F(cl_kernel, clCreateKernel, (cl_program, const char *, cl_int *))                                                          \
    F(cl_int, clReleaseKernel, (cl_kernel))                                                                                     \
    F(cl_int, clSetKernelArg, (cl_kernel, cl_uint, size_t, const void *))                                                       \
    F(cl_int, clEnqueueNDRangeKernel, (cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *, const size_t *,    \
      cl_uint, const cl_event *, cl_event *))                                                                                   \
    F(cl_int, clEnqueueReadBuffer, (cl_command_queue, cl_mem, cl_bool, size_t, size_t, void *, cl_uint, const cl_event *,       \
      cl_event *))                                                                                                              \
    F(cl_int, clEnqueueWriteBuffer, (cl_command_queue, cl_mem, cl_bool, size_t, size_t, const void *, cl_uint,                  \
      const cl_event *, cl_event *))                                                                                            \
    F(cl_int, clEnqueueCopyBuffer, (cl_command_queue, cl_mem, cl_mem, size_t, size_t, size_t, cl_uint, const cl_event *,        \
      cl_event *))                                                                                                              \
    F(void *, clEnqueueMapBuffer, (cl_command_queue, cl_mem, cl_bool, cl_bitfield, size_t, size_t, cl_uint, const cl_event *,   \
      cl_event *, cl_int *))                                                                                                    \
    F(cl_int, clEnqueueUnmapMemObject, (cl_command_queue, cl_mem, void *, cl_uint, const cl_event *, cl_event *))               \
    F(cl_int, clEnqueueMarkerWithWaitList, (cl_command_queue, cl_uint, const cl_event *, cl_event *))                           \
    F(cl_int, clGetEventInfo, (cl_event, cl_uint, size_t, void *, size_t *))                                                    \
    F(cl_int, clGetEventProfilingInfo, (cl_event, cl_uint, size_t, void *, size_t *))                                           \
    F(cl_int, clSetEventCallback, (cl_event, cl_int, opencl_event_callback, void *))                                            \
    F(cl_int, clReleaseEvent, (cl_event))

/* Of OpenCL 2.0, and NULL where the driver is older. */
#define OPENCL_LATER_FUNCTIONS(F)                                                                                               \
    F(void *, clSVMAlloc, (cl_context, cl_bitfield, size_t, cl_uint))                                                           \
    F(void, clSVMFree, (cl_context, void *))

typedef struct {
#define FIELD(type, name, parameters) type (*name) parameters;
    OPENCL_FUNCTIONS(FIELD)
    OPENCL_LATER_FUNCTIONS(FIELD)
#undef FIELD
} opencl;

/* Fill in the table from the first of these libraries that can be opened; returns 0, or -1 with a
 * sentence in `why`. The library stays open for the life of the process: drivers have threads. */
int opencl_load(opencl *table, const char *const *libraries, char *why, size_t room);

/* Whether the processor of this machine multiplies and sums up vectors of bytes by one instruction
 * (AVX-512 VNNI), which compilers do not find by themselves. */
int host_multiplies_bytes(void);

/* Name of an error code, such as "CL_OUT_OF_RESOURCES"; "an unknown error" for others. */
const char *opencl_error_name(cl_int code);

#endif
