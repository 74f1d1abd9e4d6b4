"""The vendor's libraries in this process: what was opened stays open."""

from libc.stdio cimport fflush

from dovetail_npu_vsi.ovx.vivante cimport *

from dovetail.ground.errors import ErrorCode

from ..errors import VsiError

_OLDEST = (1, 1, 88)
_NEWEST = (1, 2)    # and all that begin so: nodes have kept their layout throughout

_openvx = ""        # the file that was opened
_ovxlib = ""
_ovxlib_version = None


cdef int check(vx_status status, str what) except -1:
    """Raise `VsiError` for a status that is no success."""
    if status != VX_SUCCESS:
        name = (<bytes>openvx_status_name(status)).decode()
        code = ErrorCode.OUT_OF_MEMORY if name == "VX_ERROR_NO_MEMORY" else ErrorCode.BACKEND_BROKEN
        raise VsiError(f"{what}: {name} ({status})", code=code)
    return 0


cdef str _text(const char *text):
    return (<bytes>text).decode("utf-8", "replace")


def open_openvx(names):
    """Open the first of these libraries that there is, once in a process; return its file.

    Raises:
        VsiError: There is none, or it lacks functions.
    """
    global _openvx
    cdef char why[1024]
    if _openvx:
        return _openvx
    reasons = []
    for name in names:
        if loading_openvx(&VX, name.encode(), why, sizeof(why)) == 0:
            _openvx = _text(loading_file(<const void *>VX.vxCreateContext)) or name
            return _openvx
        reasons.append(_text(why))
    raise _missing(f"there is no OpenVX library of VeriSilicon that can be used: {'; '.join(reasons)}")


def open_ovxlib(names):
    """Open the first of these libraries that there is, once in a process; return its file.

    Raises:
        VsiError: There is none, it lacks functions, or the layout of its nodes is not known.
    """
    global _ovxlib, _ovxlib_version
    cdef char why[1024]
    if _ovxlib:
        return _ovxlib
    reasons = []
    for name in names:
        if loading_ovxlib(&NN, name.encode(), why, sizeof(why)) == 0:
            version = (NN.vsi_nn_GetVersionMajor(), NN.vsi_nn_GetVersionMinor(), NN.vsi_nn_GetVersionPatch())
            file = _text(loading_file(<const void *>NN.vsi_nn_CreateContext)) or name
            if not (version >= _OLDEST and version[:2] <= _NEWEST):
                raise VsiError(
                    f"{file} is ovxlib {'.'.join(map(str, version))}, whose layout of nodes is not known: programs are "
                    f"compiled by {'.'.join(map(str, _OLDEST))} to {'.'.join(map(str, _NEWEST))}.x",
                    code=ErrorCode.BACKEND_UNAVAILABLE,
                    hint="name another one in DOVETAIL_VSI_OVXLIB",
                )
            _ovxlib, _ovxlib_version = file, version
            return _ovxlib
        reasons.append(_text(why))
    raise _missing(f"there is no ovxlib that can be used: {'; '.join(reasons)}")


def ovxlib_version():
    """The version of what `open_ovxlib` opened, as three numbers."""
    return _ovxlib_version


def flush_printed():
    """Write out what the libraries printed: to a file, C keeps some back."""
    fflush(NULL)


def _missing(text):
    return VsiError(
        text,
        code=ErrorCode.BACKEND_UNAVAILABLE,
        hint="install the NPU's driver, or name its files in DOVETAIL_VSI_OPENVX and DOVETAIL_VSI_OVXLIB, or the folder of "
        "VeriSilicon's SDK in DOVETAIL_VSI_SDK",
    )
