"""Layers and subgraphs as C sees them, with the memory that they stand on."""

from libc.stdint cimport int32_t

from dovetail.abi cimport dovetail_attributes, dovetail_layer, dovetail_subgraph, dovetail_tensor_info


cdef class Store:
    cdef list kept
    cdef void *take(self, size_t size) except NULL
    cdef const char *text(self, str value) except NULL


cdef class AttributesView:
    cdef Store store
    cdef dovetail_attributes table


cdef class SubgraphView:
    cdef Store store
    cdef dict infos
    cdef dovetail_subgraph table
    cdef dovetail_tensor_info *info(self, object slot) except NULL
    cdef int fill_layer(self, dovetail_layer *layer, object source) except -1


cdef dovetail_tensor_info *tensor_info(Store store, object info, int32_t id) except NULL
