"""The functions of the libraries, for the other modules."""

from dovetail_npu_vsi.ovx.vivante cimport openvx, ovxlib, vx_status

cdef openvx VX
cdef ovxlib NN

cdef int check(vx_status status, str what) except -1
