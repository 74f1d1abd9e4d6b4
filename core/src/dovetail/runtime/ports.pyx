"""What tensors, and a caller's arrays, must look like: C tables made once per plan."""

cimport cython
cimport numpy as cnp
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_GetItem, PyDict_Size
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree
from cpython.object cimport PyObject
from libc.stdint cimport int64_t
from libc.string cimport memcmp

from dovetail.abi cimport DOVETAIL_ON_HOST, dovetail_tensor

import numpy as np

cnp.import_array()

cdef enum:
    MAX_KEY = 128       # numbers; inputs with more of them are looked up in Python


@cython.final
@cython.no_gc
cdef class TensorTable:
    """C tensors with shapes and strides, data unset, from (dtype code, bits, shape) or None."""

    def __cinit__(self, list specs):
        cdef int i, j, at = 0
        self.count = len(specs)
        total = sum(len(spec[2]) for spec in specs if spec is not None)
        self.tensors = <dovetail_tensor *>PyMem_RawCalloc(max(self.count, 1), sizeof(dovetail_tensor))
        self.sizes = <int64_t *>PyMem_RawCalloc(max(2 * total, 1), sizeof(int64_t))
        if self.tensors == NULL or self.sizes == NULL:
            raise MemoryError()
        for i in range(self.count):
            if specs[i] is None:
                self.tensors[i].ndim = -1
                continue
            code, bits, shape = specs[i]
            self.tensors[i].dtype.code, self.tensors[i].dtype.bits, self.tensors[i].dtype.lanes = code, bits, 1
            self.tensors[i].device.device_type = DOVETAIL_ON_HOST
            self.tensors[i].ndim = len(shape)
            self.tensors[i].shape, self.tensors[i].strides = self.sizes + at, self.sizes + at + len(shape)
            stride = 1
            for j in range(len(shape) - 1, -1, -1):
                self.tensors[i].shape[j], self.tensors[i].strides[j] = shape[j], stride
                stride *= max(shape[j], 1)
            at += 2 * len(shape)

    def __dealloc__(self):
        PyMem_RawFree(self.tensors)
        PyMem_RawFree(self.sizes)


@cython.final
@cython.no_gc
cdef class Ports:
    """The inputs or outputs of a plan, as C and as Python sees them."""

    def __cinit__(self, list specs, dict fixed):
        cdef int i, j, at = 0
        self.specs, self.count, self.kept = specs, len(specs), []
        total = sum(len(spec.shape) for spec in specs)
        self.ports = <Port *>PyMem_RawCalloc(max(self.count, 1), sizeof(Port))
        self.sizes = <cnp.npy_intp *>PyMem_RawCalloc(max(total, 1), sizeof(cnp.npy_intp))
        if self.ports == NULL or self.sizes == NULL:
            raise MemoryError()
        for i in range(self.count):
            spec = specs[i]
            value = fixed.get(spec.name)
            self.kept.append((spec.name, value))
            self.ports[i].name = <PyObject *>spec.name
            self.ports[i].typenum = spec.dtype.numpy.num
            self.ports[i].ndim = len(spec.shape)
            self.ports[i].shape = self.sizes + at
            self.ports[i].nbytes = spec.dtype.itemsize
            for j in range(self.ports[i].ndim):
                self.ports[i].shape[j] = spec.shape[j]
                self.ports[i].nbytes *= spec.shape[j]
            if value is not None:
                self.ports[i].fixed = <const char *>cnp.PyArray_DATA(<cnp.ndarray>value)
            at += self.ports[i].ndim

    cdef bint fit(self, dict given) noexcept:
        """Tell whether a plan with these inputs can read arrays as they are."""
        cdef Py_ssize_t i
        cdef PyObject *value
        if PyDict_Size(given) != self.count:
            return False
        for i in range(self.count):
            value = PyDict_GetItem(given, <object>self.ports[i].name)
            if value == NULL or not cnp.PyArray_Check(<object>value) or not fits(&self.ports[i], <cnp.ndarray>value):
                return False
        return True

    cdef bint are_fixed(self) noexcept:
        """Tell whether the plan was made for values of some of them."""
        cdef Py_ssize_t i
        for i in range(self.count):
            if self.ports[i].fixed != NULL:
                return True
        return False

    cdef bint have_values_of(self, dict given) noexcept:
        """Tell whether arrays, of the right shapes, have the values that the plan was made for."""
        cdef Py_ssize_t i
        cdef Port *port
        for i in range(self.count):
            port = &self.ports[i]
            if port.fixed != NULL:
                array = <object>PyDict_GetItem(given, <object>port.name)
                if memcmp(cnp.PyArray_DATA(<cnp.ndarray>array), port.fixed, port.nbytes) != 0:
                    return False
        return True

    cdef bytes key_of(self, dict arrays):
        """Return what tells apart plans of one network: ranks and sizes of all inputs.

        None unless all are NumPy arrays, and few enough. Runs no Python code.
        """
        cdef int64_t numbers[MAX_KEY]
        cdef Py_ssize_t i, j, n = 0, rank
        cdef PyObject *value
        if PyDict_Size(arrays) != self.count:
            return None
        for i in range(self.count):
            value = PyDict_GetItem(arrays, <object>self.ports[i].name)
            if value == NULL or not cnp.PyArray_Check(<object>value):
                return None
            rank = cnp.PyArray_NDIM(<cnp.ndarray>value)
            if n + 1 + rank > MAX_KEY:
                return None
            numbers[n] = rank
            for j in range(rank):
                numbers[n + 1 + j] = cnp.PyArray_DIMS(<cnp.ndarray>value)[j]
            n += 1 + rank
        return PyBytes_FromStringAndSize(<char *>numbers, n * sizeof(int64_t))

    cdef bytes key(self):
        """Return the key of arrays that look like these; None if it would be too long."""
        numbers = [number for spec in self.specs for number in (len(spec.shape), *spec.shape)]
        return np.array(numbers, np.int64).tobytes() if len(numbers) <= MAX_KEY else None

    def __dealloc__(self):
        PyMem_RawFree(self.ports)
        PyMem_RawFree(self.sizes)
