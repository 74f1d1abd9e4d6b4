"""What moves whole images."""

from libc.stdint cimport int64_t

from dovetail.abi cimport DOVETAIL_ALIAS_PART, DOVETAIL_ALIAS_VIEW, DOVETAIL_WORKLOAD_ELIDABLE
from dovetail_neon.movement.parameters cimport acc_frame, acc_interleave, acc_join
from dovetail_neon.workload.making cimport Kernels, Workload, new_workload

from dovetail_neon.geometry.layouts import blocks


def create_join(layer, Kernels kernels):
    """Return the workload of a `Join`; parts of whole blocks may be computed in place."""
    channels = layer.descriptor.channels
    cdef Workload workload = new_workload(sizeof(acc_join), len(channels), 1)
    cdef acc_join *s = <acc_join *>workload.state.parameters
    cdef int lanes = kernels.table.lanes
    cdef int64_t *sizes
    cdef int64_t *starts
    s.images, s.channels, height, width = layer.descriptor.image
    s.pixels, s.parts = height * width, len(channels)
    sizes = <int64_t *>workload.allocate(len(channels) * sizeof(int64_t))
    starts = <int64_t *>workload.allocate(len(channels) * sizeof(int64_t))
    s.part_channels, s.first_channel = sizes, starts
    start, alone = 0, s.images == 1
    for part, count in enumerate(channels):
        sizes[part], starts[part] = count, start
        alone = alone and count % lanes == 0
        if alone:
            workload.alias(DOVETAIL_ALIAS_PART, 0, part, start * s.pixels * 4)
        start += count
    items = s.images * s.parts
    workload.phase(kernels.table.images.join, items, layer.output.info.nbytes / 10.0)
    return workload.capsule(DOVETAIL_WORKLOAD_ELIDABLE if alone else 0)


def create_frame(layer, Kernels kernels):
    """Return the workload of a `Frame`."""
    cdef Workload workload = new_workload(sizeof(acc_frame), 1, 1)
    cdef acc_frame *s = <acc_frame *>workload.state.parameters
    d = layer.descriptor
    images, channels, s.height, s.width = d.image
    s.planes, s.element = (images, channels) if d.channels_last else (images * channels, 1)
    s.top, s.left, s.bottom, s.right = d.padding
    rows = s.planes * (s.height + s.top + s.bottom)
    workload.phase(kernels.table.images.frame, rows, layer.output.info.nbytes / 15.0)
    return workload.capsule()


def create_interleave(layer, Kernels kernels):
    """Return the workload of an `Interleave`."""
    cdef Workload workload = new_workload(sizeof(acc_interleave), len(layer.inputs), 1)
    cdef acc_interleave *s = <acc_interleave *>workload.state.parameters
    d = layer.descriptor
    s.apart = len(layer.inputs) > 1
    s.in_height, s.in_width = d.size
    images, channels, s.out_height, s.out_width = d.target
    s.blocks = blocks(channels, kernels.table.lanes)
    s.stride_y, s.stride_x = d.stride
    s.first_y, s.first_x = d.first
    workload.phase(kernels.table.images.interleave, images * s.blocks * s.out_height, layer.output.info.nbytes / 10.0)
    return workload.capsule()


def create_view(layer, Kernels kernels):
    """Return the workload that hands on bytes under another shape; the step vanishes if it can."""
    cdef Workload workload = new_workload(1, 1, 1)
    nbytes = layer.output.info.nbytes
    workload.phase(kernels.table.images.copy, nbytes, nbytes / 10.0, 4096)
    workload.alias(DOVETAIL_ALIAS_VIEW, 0, 0, 0)
    return workload.capsule(DOVETAIL_WORKLOAD_ELIDABLE)
