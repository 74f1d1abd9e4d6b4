"""Show layers, subgraphs, devices and options to a table of C: see `dovetail_layer` in abi.h."""

from cpython.bytes cimport PyBytes_AS_STRING
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree
from libc.stdint cimport int64_t
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

from ..graph.descriptor import Constant
from ..graph.tensor import TensorInfo
from .attribute_types import AttributeType, attribute_rows, fact_rows, option_rows

# One enumeration, written down in C and in Python.
assert [int(one) for one in AttributeType][1:] == [
    DOVETAIL_ATTRIBUTE_BOOL, DOVETAIL_ATTRIBUTE_INT, DOVETAIL_ATTRIBUTE_FLOAT, DOVETAIL_ATTRIBUTE_STRING,
    DOVETAIL_ATTRIBUTE_INTS, DOVETAIL_ATTRIBUTE_FLOATS, DOVETAIL_ATTRIBUTE_STRINGS, DOVETAIL_ATTRIBUTE_TENSOR,
]


cdef class View:
    """Owns all that one C struct points at; constants are kept alive, not copied."""

    def __cinit__(self):
        self.kept = []
        self.ids = {}

    def __dealloc__(self):
        cdef void *block = self.blocks
        cdef void *following
        while block != NULL:
            following = (<void **>block)[0]
            PyMem_RawFree(block)
            block = following

    @staticmethod
    def of_layer(layer):
        """Show one layer, as a subgraph of one."""
        return View.of_layers([layer], _fed(layer), layer.outputs)

    @staticmethod
    def of_part(part):
        """Show a convex part of a graph."""
        return View.of_layers(part.layers, part.inputs, part.outputs)

    @staticmethod
    def of_layers(layers, inputs, outputs):
        cdef View self = View.__new__(View)
        cdef const dovetail_layer **members = <const dovetail_layer **>self.take(max(len(layers), 1) * sizeof(void *))
        cdef const dovetail_tensor_info **fed = <const dovetail_tensor_info **>self.take(max(len(inputs), 1) * sizeof(void *))
        cdef const dovetail_tensor_info **read = <const dovetail_tensor_info **>self.take(max(len(outputs), 1) * sizeof(void *))
        for i, layer in enumerate(layers):
            members[<int>i] = self.layer(layer)
        for i, slot in enumerate(inputs):
            if slot is not None:
                fed[<int>i] = self.slot(slot)
        for i, slot in enumerate(outputs):
            read[<int>i] = self.slot(slot)
        self.subgraph.size = sizeof(self.subgraph)
        self.subgraph.layers, self.subgraph.n_layers = members, len(layers)
        self.subgraph.inputs, self.subgraph.n_inputs = fed, len(inputs)
        self.subgraph.outputs, self.subgraph.n_outputs = read, len(outputs)
        self.ids = None     # slots lead to the graph, and so back to what is compiled of it: no cycle may arise
        return self

    @staticmethod
    def of_options(options):
        """Show the options of a backend, but for those that are the adapter's own."""
        cdef View self = View.__new__(View)
        self.fill_attributes(&self.attributes, option_rows(options))
        return self

    @staticmethod
    def of_device(device):
        """Show a device and its facts."""
        cdef View self = View.__new__(View)
        self.device.size, self.device.index = sizeof(self.device), device.index
        self.device.half_precision = 0 if device.half_precision is None else 1 if device.half_precision else -1
        self.device.memory_bytes = device.memory_bytes or 0
        self.device.name, self.device.revision = self.text(device.name), self.text(device.revision)
        self.fill_attributes(&self.device.facts, fact_rows(device.facts))
        return self

    @staticmethod
    def of_tensor(info):
        """Show what is known of one tensor."""
        cdef View self = View.__new__(View)
        self.tensor = self.info(info, 0, None)
        return self

    cdef void *take(self, size_t nbytes) except NULL:
        cdef void **block = <void **>PyMem_RawCalloc(1, nbytes + 16)
        if block == NULL:
            raise MemoryError()
        block[0] = self.blocks
        self.blocks = block
        return <char *>block + 16

    cdef const char *text(self, str value) except NULL:
        data = value.replace("\0", "\\0").encode("utf-8", "backslashreplace")
        self.kept.append(data)
        return PyBytes_AS_STRING(data)

    cdef const dovetail_tensor_info *info(self, object info, int number, object constant) except NULL:
        cdef dovetail_tensor_info *target = <dovetail_tensor_info *>self.take(sizeof(dovetail_tensor_info))
        cdef int64_t *shape = <int64_t *>self.take(max(info.rank, 1) * sizeof(int64_t))
        cdef double *scales
        cdef int64_t *zero_points
        for i, size in enumerate(info.sizes):
            shape[<int>i] = size
        target.size = sizeof(dovetail_tensor_info)
        target.id, target.ndim, target.shape, target.axis = number, info.rank, shape, -1
        target.dtype.code, target.dtype.bits, target.dtype.lanes = info.dtype.dlpack_code, info.dtype.bits, 1
        if info.quantization is not None:
            count = len(info.quantization.scale)
            scales = <double *>self.take(count * sizeof(double))
            zero_points = <int64_t *>self.take(count * sizeof(int64_t))
            for i in range(count):
                scales[<int>i] = info.quantization.scale[i]
                zero_points[<int>i] = info.quantization.zero_point[i]
            target.scales, target.zero_points, target.n_scales = scales, zero_points, count
            if info.quantization.axis is not None:
                target.axis = info.quantization.axis
                if target.axis < 0:
                    target.axis += info.rank
        if constant is not None:
            array = np.ascontiguousarray(constant)
            self.kept.append(array)
            target.constant = <const void *><size_t>array.ctypes.data
        return target

    cdef const dovetail_tensor_info *slot(self, object slot) except NULL:
        """The one struct of a tensor: the same slot gives the same id and address."""
        found = self.ids.get(slot)
        if found is not None:
            return <const dovetail_tensor_info *><size_t>found
        value = slot.layer.descriptor.value if isinstance(slot.layer.descriptor, Constant) else None
        cdef const dovetail_tensor_info *made = self.info(slot.known_info, len(self.ids), value)
        self.ids[slot] = <size_t>made
        return made

    cdef const dovetail_attribute *attribute(self, str name, int kind, int since, object values) except NULL:
        cdef dovetail_attribute *target = <dovetail_attribute *>self.take(sizeof(dovetail_attribute))
        cdef int64_t *integers
        cdef double *reals
        cdef const char **strings
        target.size = sizeof(dovetail_attribute)
        target.name, target.type, target.since = self.text(name), kind, since
        if kind == DOVETAIL_ATTRIBUTE_TENSOR:
            target.tensor, target.count = self._array(values), 1
            return target
        target.count = len(values)
        if kind in (DOVETAIL_ATTRIBUTE_BOOL, DOVETAIL_ATTRIBUTE_INT, DOVETAIL_ATTRIBUTE_INTS):
            integers = <int64_t *>self.take(max(len(values), 1) * sizeof(int64_t))
            for i, value in enumerate(values):
                integers[<int>i] = int(value)
            target.integers = integers
        elif kind in (DOVETAIL_ATTRIBUTE_FLOAT, DOVETAIL_ATTRIBUTE_FLOATS):
            reals = <double *>self.take(max(len(values), 1) * sizeof(double))
            for i, value in enumerate(values):
                reals[<int>i] = value
            target.reals = reals
        elif kind in (DOVETAIL_ATTRIBUTE_STRING, DOVETAIL_ATTRIBUTE_STRINGS):
            strings = <const char **>self.take(max(len(values), 1) * sizeof(void *))
            for i, value in enumerate(values):
                strings[<int>i] = self.text(value)
            target.strings = strings
        return target

    cdef const dovetail_tensor *_array(self, object value) except NULL:
        cdef dovetail_tensor *tensor = <dovetail_tensor *>self.take(sizeof(dovetail_tensor))
        array = np.ascontiguousarray(value).reshape(np.shape(value))
        self.kept.append(array)
        info = TensorInfo.of_array(array)
        cdef int64_t *shape = <int64_t *>self.take(max(info.rank, 1) * sizeof(int64_t))
        cdef int64_t *strides = <int64_t *>self.take(max(info.rank, 1) * sizeof(int64_t))
        cdef int64_t stride = 1
        cdef int i
        for i in range(info.rank - 1, -1, -1):
            shape[i], strides[i] = array.shape[i], stride
            stride *= shape[i]
        tensor.data = <void *><size_t>array.ctypes.data
        tensor.device.device_type, tensor.ndim, tensor.shape, tensor.strides = 1, info.rank, shape, strides
        tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes = info.dtype.dlpack_code, info.dtype.bits, 1
        return tensor

    cdef int fill_attributes(self, dovetail_attributes *target, list rows) except -1:
        cdef const dovetail_attribute **items = <const dovetail_attribute **>self.take(max(len(rows), 1) * sizeof(void *))
        for i, (name, kind, since, values) in enumerate(rows):
            items[<int>i] = self.attribute(name, kind, since, values)
        memset(target, 0, sizeof(dovetail_attributes))
        target.size, target.items, target.count = sizeof(dovetail_attributes), items, len(rows)
        return 0

    cdef const dovetail_layer *layer(self, object layer) except NULL:
        cdef dovetail_layer *target = <dovetail_layer *>self.take(sizeof(dovetail_layer))
        n_inputs, n_outputs = len(layer.inputs), len(layer.outputs)
        cdef const dovetail_tensor_info **inputs = <const dovetail_tensor_info **>self.take(max(n_inputs, 1) * sizeof(void *))
        cdef const dovetail_tensor_info **outputs = <const dovetail_tensor_info **>self.take(max(n_outputs, 1) * sizeof(void *))
        for i, slot in enumerate(layer.inputs):
            if slot.source is not None:
                inputs[<int>i] = self.slot(slot.source)
        for i, slot in enumerate(layer.outputs):
            outputs[<int>i] = self.slot(slot)
        target.size = sizeof(dovetail_layer)
        target.kind, target.name, target.version = self.text(layer.kind), self.text(layer.name), layer.descriptor.version
        target.n_inputs, target.n_outputs, target.inputs, target.outputs = n_inputs, n_outputs, inputs, outputs
        self.fill_attributes(&target.attributes, attribute_rows(layer.descriptor))
        return target


def _fed(layer):
    """The tensors that a layer reads from others, constants apart, each once."""
    sources = (slot.source for slot in layer.inputs)
    return list(dict.fromkeys(s for s in sources if s is not None and not isinstance(s.layer.descriptor, Constant)))
