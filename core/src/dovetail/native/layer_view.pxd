"""C views of layers, subgraphs and options; private to the core."""

from dovetail.abi cimport (
    dovetail_attribute,
    dovetail_attributes,
    dovetail_device_info,
    dovetail_layer,
    dovetail_subgraph,
    dovetail_tensor,
    dovetail_tensor_info,
)


cdef class View:
    cdef void *blocks
    cdef list kept
    cdef dovetail_attributes attributes
    cdef dovetail_subgraph subgraph
    cdef dovetail_device_info device
    cdef const dovetail_tensor_info *tensor
    cdef dict ids

    cdef void *take(self, size_t nbytes) except NULL
    cdef const char *text(self, str value) except NULL
    cdef const dovetail_tensor_info *info(self, object info, int number, object constant) except NULL
    cdef const dovetail_attribute *attribute(self, str name, int kind, int since, object values) except NULL
    cdef int fill_attributes(self, dovetail_attributes *target, list rows) except -1
    cdef const dovetail_layer *layer(self, object layer) except NULL
    cdef const dovetail_tensor_info *slot(self, object slot) except NULL
    cdef const dovetail_tensor *_array(self, object value) except NULL
