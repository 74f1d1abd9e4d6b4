"""Workloads and queues, for the executor; private to the core."""

from dovetail.abi cimport dovetail_queues, dovetail_workload


cdef class Workload:
    cdef dovetail_workload *table
    cdef dovetail_workload adapted
    cdef object kept


cdef class Queues:
    cdef dovetail_queues *table
    cdef object kept
