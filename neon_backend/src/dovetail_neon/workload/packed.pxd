"""Share packed weights, in the form that kernels read, between a network's workloads."""


from dovetail_neon.workload.packing cimport acc_packing


cdef class Block:
    """A packed constant."""

    cdef void *memory
    cdef void *data             # zeroed when it is made, aligned to a cache line
    cdef size_t nbytes
    cdef bint counted           # in the private bytes of a workload
    cdef object owner           # weak reference to the array whose memory it was packed from
    cdef object __weakref__

cdef class PackedConstants:
    cdef object by_source
    cdef object by_layer
    cdef Block find(self, object source, tuple form)
    cdef Block add(self, Block block, object source, tuple form, object layer)

cdef struct asked:
    acc_packing packing        # it comes first
    void *owner

cdef class Packing:
    cdef asked c
    cdef object error
    cdef acc_packing *start(self) except NULL
    cdef int finish(self) except -1

cdef Block new_block(size_t nbytes)
