"""Tables of tensors and ports, for the executor; private to the core."""

cimport numpy as cnp
from cpython.object cimport PyObject
from libc.stdint cimport int64_t
from libc.string cimport memcmp

from dovetail.abi cimport dovetail_tensor


cdef struct Port:
    # One graph input or output: what a caller's array must look like.
    PyObject *name
    int typenum
    int ndim
    cnp.npy_intp *shape
    const char *fixed       # bytes that the plan was made for, or NULL
    int64_t nbytes


cdef class TensorTable:
    cdef dovetail_tensor *tensors
    cdef int64_t *sizes
    cdef int count


cdef class Ports:
    cdef Port *ports
    cdef int count
    cdef cnp.npy_intp *sizes
    cdef readonly list specs
    cdef list kept

    cdef bint fit(self, dict given) noexcept
    cdef bint are_fixed(self) noexcept
    cdef bint have_values_of(self, dict given) noexcept
    cdef bytes key_of(self, dict arrays)
    cdef bytes key(self)


cdef inline bint fits(const Port *port, cnp.ndarray array) noexcept:
    """True if an array can be used as it is."""
    cdef int i
    if cnp.PyArray_TYPE(array) != port.typenum or cnp.PyArray_NDIM(array) != port.ndim:
        return False
    for i in range(port.ndim):
        if cnp.PyArray_DIMS(array)[i] != port.shape[i]:
            return False
    if not cnp.PyArray_CHKFLAGS(array, cnp.NPY_ARRAY_C_CONTIGUOUS | cnp.NPY_ARRAY_ALIGNED) or not cnp.PyArray_ISNOTSWAPPED(array):
        return False
    return port.fixed == NULL or memcmp(cnp.PyArray_DATA(array), port.fixed, port.nbytes) == 0
