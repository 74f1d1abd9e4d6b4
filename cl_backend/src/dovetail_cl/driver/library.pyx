"""The OpenCL library, and the devices of its platforms."""

from libc.stdint cimport intptr_t, uint64_t

from dovetail_cl.driver.opencl cimport *

from .errors import ClError, DriverMissing, NoDevice, NoPlatform

cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1

_library = None     # the names that were loaded; what was loaded stays
_LIBRARIES = ("libOpenCL.so.1", "libOpenCL.so")

cdef enum:
    STAGED_FROM = 65536     # bytes; of a smaller input drivers take a copy along with the command
    CHUNK = 4194304         # bytes: long against the 10 us of a command, small beside a processor's cache


class _HostSignals:
    """Keeps the host's reactions to signals around what may load or initialise a driver."""

    def __enter__(self):
        signals_keep()

    def __exit__(self, *_):
        signals_put_back(<const void *>PyErr_CheckSignals)


host_signals = _HostSignals()
"""A block in which a driver is loaded, initialised or made to compile."""


def load(str named=""):
    """Open the OpenCL library, once in a process; the one that is named alone, if one is.

    Raises:
        DriverMissing: There is none, or it is older than OpenCL 1.2.
    """
    global _library
    cdef const char *names[3]
    cdef char why[1024]
    cdef int i
    if _library is not None:
        return
    wanted = [name.encode() for name in ((named,) if named else _LIBRARIES)]
    for i in range(len(wanted)):
        names[i] = wanted[i]
    names[len(wanted)] = NULL
    why[0] = 0
    with host_signals:
        done = opencl_load(&CL, names, why, sizeof(why))
    if done != 0:
        raise DriverMissing(f"there is no OpenCL library that can be used: {why.decode('utf-8', 'replace')}")
    _library = named


def check(cl_int code, str what):
    """Raise `ClError` for a code that is no success."""
    if code != CL_SUCCESS:
        raise ClError(what, code, (<bytes>opencl_error_name(code)).decode())


cdef str _platform_text(cl_platform_id platform, cl_uint name):
    cdef size_t size = 0
    if CL.clGetPlatformInfo(platform, name, 0, NULL, &size) != CL_SUCCESS or size == 0:
        return ""
    text = bytearray(size)
    if CL.clGetPlatformInfo(platform, name, size, <char *>text, NULL) != CL_SUCCESS:
        return ""
    return bytes(text).rstrip(b"\0").decode("utf-8", "replace").strip()


cdef str _text(cl_device_id device, cl_uint name):
    cdef size_t size = 0
    if CL.clGetDeviceInfo(device, name, 0, NULL, &size) != CL_SUCCESS or size == 0:
        return ""
    text = bytearray(size)
    if CL.clGetDeviceInfo(device, name, size, <char *>text, NULL) != CL_SUCCESS:
        return ""
    return bytes(text).rstrip(b"\0").decode("utf-8", "replace").strip()


cdef uint64_t _number(cl_device_id device, cl_uint name):
    """A number of 4 or 8 bytes; 0 where the device does not know the question."""
    cdef uint64_t value = 0
    if CL.clGetDeviceInfo(device, name, sizeof(value), &value, NULL) != CL_SUCCESS:
        return 0
    return value


cdef frozenset _features(cl_device_id device):
    """What OpenCL C 3.0 calls optional, and the device's compiler has; none of an older one."""
    cdef size_t size = 0
    if CL.clGetDeviceInfo(device, CL_DEVICE_OPENCL_C_FEATURES, 0, NULL, &size) != CL_SUCCESS or size == 0:
        return frozenset()
    content = bytearray(size)
    if CL.clGetDeviceInfo(device, CL_DEVICE_OPENCL_C_FEATURES, size, <char *>content, NULL) != CL_SUCCESS:
        return frozenset()
    return frozenset(bytes(content[at + 4:at + 68]).split(b"\0")[0].decode() for at in range(0, size, 68))


cdef str _subgroup_language(cl_device_id device):
    """The OpenCL C in which kernels reduce across subgroups, as compilers name it; empty: none."""
    if "__opencl_c_subgroups" in _features(device):
        return "CL3.0"
    is_second = _text(device, CL_DEVICE_OPENCL_C_VERSION).startswith("OpenCL C 2.")
    return "CL2.0" if is_second and "cl_khr_subgroups" in _text(device, CL_DEVICE_EXTENSIONS).split() else ""


cdef str _dot_language(cl_device_id device):
    """The OpenCL C in which four products of bytes are one; empty: none, or a slow one."""
    cdef cl_uint accelerated[6]     # of signed integers first
    if "cl_khr_integer_dot_product" not in _text(device, CL_DEVICE_EXTENSIONS).split():
        return ""
    code = CL.clGetDeviceInfo(
        device, CL_DEVICE_INTEGER_DOT_PRODUCT_ACCELERATION_PROPERTIES_4x8BIT_PACKED, sizeof(accelerated), accelerated, NULL)
    if code == CL_SUCCESS and not accelerated[0]:
        return ""
    return "CL3.0" if "__opencl_c_integer_dot_product_input_4x8bit_packed" in _features(device) else "CL1.2"


cdef list _devices_of(cl_platform_id platform):
    cdef cl_uint count = 0
    cdef cl_device_id found[64]
    if CL.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 64, found, &count) != CL_SUCCESS:
        return []
    return [<intptr_t>found[i] for i in range(min(count, 64))]


def list_devices():
    """Return the facts of all devices of all platforms, in the order of the driver; opens none.

    Raises:
        NoPlatform: There is no driver behind the library.
        NoDevice: No platform has a device.
    """
    with host_signals:
        return _listed()


def _listed():
    cdef cl_uint count = 0, i
    cdef cl_platform_id platforms[32]
    cdef cl_device_id device
    cdef uint64_t kind
    cdef cl_int code = CL.clGetPlatformIDs(32, platforms, &count)
    if code == CL_PLATFORM_NOT_FOUND or (code == CL_SUCCESS and count == 0):
        raise NoPlatform("the OpenCL library finds no platform: no driver of a device is installed")
    check(code, "the OpenCL platforms cannot be listed")
    found = []
    for i in range(min(count, 32)):
        for handle in _devices_of(platforms[i]):
            device = <cl_device_id><intptr_t>handle
            if not _number(device, CL_DEVICE_AVAILABLE):
                continue
            kind = _number(device, CL_DEVICE_TYPE)
            is_pocl = _platform_text(platforms[i], CL_PLATFORM_NAME) == "Portable Computing Language"
            found.append({
                "handles": (<intptr_t>platforms[i], <intptr_t>device),
                "name": _text(device, CL_DEVICE_NAME),
                "vendor": _text(device, CL_DEVICE_VENDOR),
                "platform": _platform_text(platforms[i], CL_PLATFORM_NAME),
                "platform_version": _platform_text(platforms[i], CL_PLATFORM_VERSION),
                "driver": _text(device, CL_DRIVER_VERSION),
                "version": _text(device, CL_DEVICE_VERSION),
                "extensions": _text(device, CL_DEVICE_EXTENSIONS),
                "kind": "cpu" if kind & CL_DEVICE_TYPE_CPU else "gpu" if kind & CL_DEVICE_TYPE_GPU else "accelerator",
                "has_compiler": bool(_number(device, CL_DEVICE_COMPILER_AVAILABLE)),
                "memory": _number(device, CL_DEVICE_GLOBAL_MEM_SIZE),
                "max_allocation": _number(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE),
                "local_memory": _number(device, CL_DEVICE_LOCAL_MEM_SIZE),
                "has_local_memory": _number(device, CL_DEVICE_LOCAL_MEM_TYPE) == 1,
                "compute_units": _number(device, CL_DEVICE_MAX_COMPUTE_UNITS),
                "max_group": _number(device, CL_DEVICE_MAX_WORK_GROUP_SIZE),
                "alignment": max(_number(device, CL_DEVICE_MEM_BASE_ADDR_ALIGN) // 8, 64),
                "vector_width": _number(device, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT),
                "is_unified": bool(_number(device, CL_DEVICE_HOST_UNIFIED_MEMORY)),
                "svm": bool(_number(device, CL_DEVICE_SVM_CAPABILITIES) & CL_DEVICE_SVM_FINE_GRAIN_BUFFER)
                    and CL.clSVMAlloc != NULL,
                "staged_from": STAGED_FROM,
                "chunk": CHUNK,
                "divides_exactly": bool(_number(device, CL_DEVICE_SINGLE_FP_CONFIG) & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT),
                "subgroups": _number(device, CL_DEVICE_MAX_NUM_SUB_GROUPS),
                "subgroup_language": _subgroup_language(device),
                "dot_language": _dot_language(device),
                # PoCL compiles a kernel once more for each size of group that it meets.
                "compiles_late": is_pocl,
                # Its compiler takes instructions by their names.
                "multiplies_bytes": bool(is_pocl and kind & CL_DEVICE_TYPE_CPU and host_multiplies_bytes()),
            })
    if not found:
        raise NoDevice(f"none of the {count} OpenCL platforms has a device that is available")
    return found
