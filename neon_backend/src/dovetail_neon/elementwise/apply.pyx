"""A function of every element, and factors per channel."""

from libc.stdint cimport int64_t

from dovetail_neon.elementwise.parameters cimport acc_flat, acc_scale
from dovetail_neon.workload.making cimport DOVETAIL_ALIAS_IN_PLACE, LONG_PLANE, Kernels, Workload, new_workload, parts

from dovetail_neon.geometry.layouts import blocks, elements


def create_scale(layer, Kernels kernels):
    """Return the workload of a `ScaleChannels`."""
    cdef Workload workload = new_workload(sizeof(acc_scale), 2, 1)
    cdef acc_scale *s = <acc_scale *>workload.state.parameters
    s.images, s.channels, height, width = layer.descriptor.image
    s.pixels = height * width
    s.activation.function, s.activation.a, s.activation.b = layer.descriptor.function
    planes = s.images * blocks(s.channels, kernels.table.lanes)
    s.chunks = max(1, min(parts(16, max(planes, 1)), s.pixels // 64), s.pixels // LONG_PLANE)
    workload.phase(kernels.table.elementwise.scale, planes * s.chunks, planes * s.pixels * 2.0)
    workload.alias(DOVETAIL_ALIAS_IN_PLACE, 0, 0, 0)
    return workload.capsule()


def create_apply(layer, Kernels kernels):
    """Return the workload of an `Apply`."""
    cdef Workload workload = new_workload(sizeof(acc_flat), 1, 1)
    cdef acc_flat *s = <acc_flat *>workload.state.parameters
    s.activation.function, s.activation.a, s.activation.b = layer.descriptor.function
    count = elements(layer.output.info)
    workload.phase(kernels.table.elementwise.apply, count, count * 0.3, 64)
    workload.alias(DOVETAIL_ALIAS_IN_PLACE, 0, 0, 0)
    return workload.capsule()
