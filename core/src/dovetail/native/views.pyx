"""Layers, subgraphs and options as C sees them: mirrors in C memory that live as long as their view."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from dovetail.abi cimport (
    DOVETAIL_ATTRIBUTE_BOOL,
    DOVETAIL_ATTRIBUTE_FLOAT,
    DOVETAIL_ATTRIBUTE_FLOATS,
    DOVETAIL_ATTRIBUTE_INT,
    DOVETAIL_ATTRIBUTE_INTS,
    DOVETAIL_ATTRIBUTE_STRING,
    DOVETAIL_ATTRIBUTE_STRINGS,
    DOVETAIL_ATTRIBUTE_TENSOR,
    dovetail_attribute,
    dovetail_attributes,
    dovetail_layer,
    dovetail_tensor,
    dovetail_tensor_info,
)

import numpy as np

from ..descriptor import Constant
from ..tensor import DType
from .attribute_types import attributes_of


cdef class Store:
    """Owns blocks of zeroed memory, and the Python objects that others point into."""

    def __cinit__(self):
        self.kept = []

    cdef void *take(self, size_t size) except NULL:
        """Return a block, aligned to 16 bytes as objects are, that lives as long as the store."""
        cdef bytes block = PyBytes_FromStringAndSize(NULL, max(size, 1))
        memset(PyBytes_AS_STRING(block), 0, max(size, 1))
        self.kept.append(block)
        return PyBytes_AS_STRING(block)

    cdef const char *text(self, str value) except NULL:
        cdef bytes encoded = value.encode("utf-8", "backslashreplace").replace(b"\0", b"\\0")
        self.kept.append(encoded)
        return PyBytes_AS_STRING(encoded)


cdef int fill_tensor(Store store, dovetail_tensor *tensor, object array) except -1:
    """Describe an array in host memory."""
    cdef int i
    cdef int64_t stride = 1
    dtype = DType.of(array.dtype)
    store.kept.append(array)
    tensor.data = <void *><size_t>array.ctypes.data
    tensor.device.device_type = 1
    tensor.ndim = array.ndim
    tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes = dtype.dlpack_code, dtype.bits, 1
    tensor.shape = <int64_t *>store.take(array.ndim * sizeof(int64_t))
    tensor.strides = <int64_t *>store.take(array.ndim * sizeof(int64_t))
    for i in range(array.ndim - 1, -1, -1):
        tensor.shape[i], tensor.strides[i] = array.shape[i], stride
        stride *= max(array.shape[i], 1)
    return 0


cdef int fill_attributes(Store store, dovetail_attributes *table, list attributes) except -1:
    cdef dovetail_attribute **items = <dovetail_attribute **>store.take(len(attributes) * sizeof(void *))
    cdef dovetail_attribute *one
    cdef int64_t *integers
    cdef double *reals
    cdef const char **strings
    cdef int i, j
    for i in range(len(attributes)):
        name, type, values, since = attributes[i]
        one = <dovetail_attribute *>store.take(sizeof(dovetail_attribute))
        one.size = sizeof(dovetail_attribute)
        one.name = store.text(name)
        one.type, one.since, one.count = type, since, len(values) if type != DOVETAIL_ATTRIBUTE_TENSOR else 1
        if type in (DOVETAIL_ATTRIBUTE_BOOL, DOVETAIL_ATTRIBUTE_INT, DOVETAIL_ATTRIBUTE_INTS):
            integers = <int64_t *>store.take(len(values) * sizeof(int64_t))
            for j in range(len(values)):
                integers[j] = values[j]
            one.integers = integers
        elif type in (DOVETAIL_ATTRIBUTE_FLOAT, DOVETAIL_ATTRIBUTE_FLOATS):
            reals = <double *>store.take(len(values) * sizeof(double))
            for j in range(len(values)):
                reals[j] = values[j]
            one.reals = reals
        elif type in (DOVETAIL_ATTRIBUTE_STRING, DOVETAIL_ATTRIBUTE_STRINGS):
            strings = <const char **>store.take(len(values) * sizeof(void *))
            for j in range(len(values)):
                strings[j] = store.text(values[j])
            one.strings = strings
        elif type == DOVETAIL_ATTRIBUTE_TENSOR:
            one.tensor = <dovetail_tensor *>store.take(sizeof(dovetail_tensor))
            fill_tensor(store, <dovetail_tensor *>one.tensor, values)
        items[i] = one
    table.size = sizeof(dovetail_attributes)
    table.items, table.count = <const dovetail_attribute *const *>items, len(attributes)
    return 0


cdef class AttributesView:
    """Options as C sees them, from a list of `Attribute`."""

    def __cinit__(self, list attributes):
        self.store = Store()
        fill_attributes(self.store, &self.table, attributes)


cdef class SubgraphView:
    """Layers as C sees them; a tensor that several of them touch has one id.

    Args:
        layers: Producers before consumers.
        inputs, outputs: Slots that are the inputs and outputs of the whole.
    """

    def __cinit__(self, layers, inputs=(), outputs=()):
        cdef int i
        cdef dovetail_layer *storage
        cdef const dovetail_layer **table
        layers, inputs, outputs = list(layers), list(inputs), list(outputs)
        self.store, self.infos = Store(), {}
        storage = <dovetail_layer *>self.store.take(len(layers) * sizeof(dovetail_layer))
        table = <const dovetail_layer **>self.store.take(len(layers) * sizeof(void *))
        self.table.size = sizeof(self.table)
        self.table.n_layers, self.table.n_inputs, self.table.n_outputs = len(layers), len(inputs), len(outputs)
        self.table.inputs = slots(self, inputs)
        for i in range(len(layers)):
            self.fill_layer(&storage[i], layers[i])
            table[i] = &storage[i]
        self.table.layers = <const dovetail_layer *const *>table
        self.table.outputs = slots(self, outputs)

    cdef int fill_layer(self, dovetail_layer *layer, object source) except -1:
        layer.size = sizeof(dovetail_layer)
        layer.kind, layer.name = self.store.text(source.kind), self.store.text(source.name)
        layer.version = source.descriptor.version
        layer.n_inputs, layer.n_outputs = len(source.inputs), len(source.outputs)
        layer.inputs = slots(self, [slot.source for slot in source.inputs])
        layer.outputs = slots(self, source.outputs)
        fill_attributes(self.store, &layer.attributes, attributes_of(source.descriptor))
        return 0

    cdef dovetail_tensor_info *info(self, object slot) except NULL:
        cdef dovetail_tensor_info *info
        if slot in self.infos:
            return <dovetail_tensor_info *><size_t>self.infos[slot]
        info = tensor_info(self.store, slot.known_info, len(self.infos))
        self.infos[slot] = <size_t>info
        descriptor = slot.layer.descriptor
        if isinstance(descriptor, Constant):
            value = np.ascontiguousarray(descriptor.value).reshape(descriptor.value.shape)
            self.store.kept.append(value)
            info.constant = <const void *><size_t>value.ctypes.data
        return info


cdef const dovetail_tensor_info *const *slots(SubgraphView view, object given) except NULL:
    cdef const dovetail_tensor_info **table
    cdef int i = 0
    given = list(given)
    table = <const dovetail_tensor_info **>view.store.take(len(given) * sizeof(void *))
    for slot in given:
        table[i] = view.info(slot) if slot is not None else NULL
        i += 1
    return <const dovetail_tensor_info *const *>table


cdef dovetail_tensor_info *tensor_info(Store store, object info, int32_t id) except NULL:
    """Describe a tensor whose shape is concrete."""
    cdef dovetail_tensor_info *made = <dovetail_tensor_info *>store.take(sizeof(dovetail_tensor_info))
    cdef int64_t *shape = <int64_t *>store.take(info.rank * sizeof(int64_t))
    cdef double *scales
    cdef int64_t *zero_points
    cdef int i
    made.size = sizeof(dovetail_tensor_info)
    made.id, made.ndim, made.axis = id, info.rank, -1
    made.dtype.code, made.dtype.bits, made.dtype.lanes = info.dtype.dlpack_code, info.dtype.bits, 1
    for i in range(info.rank):
        shape[i] = info.shape[i]
    made.shape = shape
    quantization = info.quantization
    if quantization is not None:
        made.n_scales = len(quantization.scale)
        scales = <double *>store.take(made.n_scales * sizeof(double))
        zero_points = <int64_t *>store.take(made.n_scales * sizeof(int64_t))
        for i in range(made.n_scales):
            scales[i], zero_points[i] = quantization.scale[i], quantization.zero_point[i]
        made.scales, made.zero_points = scales, zero_points
        if quantization.axis is not None:
            made.axis = quantization.axis
    return made
