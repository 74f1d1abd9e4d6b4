"""What a table compiled, for workloads made of it; private to the core."""

from dovetail.native.layer_view cimport View
from dovetail.native.table cimport Call, Table


cdef class Compiled:
    cdef Table table
    cdef void *handle
    cdef View part

    @staticmethod
    cdef Compiled begin(Table table, View part)
    cdef object finish(self, Call call)
