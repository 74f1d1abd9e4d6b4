"""The functions of the library, for the other modules."""

from dovetail_cl.driver.opencl cimport opencl

cdef opencl CL
