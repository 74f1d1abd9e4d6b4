"""What moves or scales whole images, or treats every element by itself."""

from libc.stdint cimport int64_t

from dovetail.abi cimport DOVETAIL_ALIAS_IN_PLACE, DOVETAIL_ALIAS_PART, DOVETAIL_ALIAS_VIEW, DOVETAIL_WORKLOAD_ELIDABLE
from dovetail_neon.interface.images cimport neon_flat, neon_frame, neon_interleave, neon_join, neon_scale
from dovetail_neon.kernels cimport Kernels
from dovetail_neon.workloads.rounding cimport parts
from dovetail_neon.workloads.workload cimport LONG_PLANE, Workload, new_workload

from dovetail_neon.layouts import blocks, elements


def create_scale(layer, Kernels kernels):
    """Return the workload of a `ScaleChannels`."""
    cdef Workload workload = new_workload(sizeof(neon_scale), 2, 1)
    cdef neon_scale *s = <neon_scale *>workload.state.parameters
    s.images, s.channels, height, width = layer.descriptor.image
    s.pixels = height * width
    s.activation.function, s.activation.a, s.activation.b = layer.descriptor.function
    planes = s.images * blocks(s.channels, kernels.table.lanes)
    s.chunks = max(1, min(parts(16, max(planes, 1)), s.pixels // 64), s.pixels // LONG_PLANE)
    workload.phase(kernels.table.images.scale, planes * s.chunks, planes * s.pixels * 2.0)
    workload.alias(DOVETAIL_ALIAS_IN_PLACE, 0, 0, 0)
    return workload.capsule()


def create_join(layer, Kernels kernels):
    """Return the workload of a `Join`; parts that begin and end with a block may be computed where they belong."""
    channels = layer.descriptor.channels
    cdef Workload workload = new_workload(sizeof(neon_join), len(channels), 1)
    cdef neon_join *s = <neon_join *>workload.state.parameters
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
    cdef Workload workload = new_workload(sizeof(neon_frame), 1, 1)
    cdef neon_frame *s = <neon_frame *>workload.state.parameters
    d = layer.descriptor
    images, channels, s.height, s.width = d.image
    s.planes, s.element = (images, channels) if d.channels_last else (images * channels, 1)
    s.top, s.left, s.bottom, s.right = d.padding
    rows = s.planes * (s.height + s.top + s.bottom)
    workload.phase(kernels.table.images.frame, rows, layer.output.info.nbytes / 15.0)
    return workload.capsule()


def create_interleave(layer, Kernels kernels):
    """Return the workload of an `Interleave`."""
    cdef Workload workload = new_workload(sizeof(neon_interleave), len(layer.inputs), 1)
    cdef neon_interleave *s = <neon_interleave *>workload.state.parameters
    d = layer.descriptor
    s.apart = len(layer.inputs) > 1
    s.in_height, s.in_width = d.size
    images, channels, s.out_height, s.out_width = d.target
    s.blocks = blocks(channels, kernels.table.lanes)
    s.stride_y, s.stride_x = d.stride
    s.first_y, s.first_x = d.first
    workload.phase(kernels.table.images.interleave, images * s.blocks * s.out_height, layer.output.info.nbytes / 10.0)
    return workload.capsule()


def create_apply(layer, Kernels kernels):
    """Return the workload of an `Apply`."""
    cdef Workload workload = new_workload(sizeof(neon_flat), 1, 1)
    cdef neon_flat *s = <neon_flat *>workload.state.parameters
    s.activation.function, s.activation.a, s.activation.b = layer.descriptor.function
    count = elements(layer.output.info)
    workload.phase(kernels.table.images.apply, count, count * 0.3, 64)
    workload.alias(DOVETAIL_ALIAS_IN_PLACE, 0, 0, 0)
    return workload.capsule()


def create_view(layer, Kernels kernels):
    """Return the workload that hands on bytes under another shape; the step disappears where it can."""
    cdef Workload workload = new_workload(1, 1, 1)
    nbytes = layer.output.info.nbytes
    workload.phase(kernels.table.images.copy, nbytes, nbytes / 10.0, 4096)
    workload.alias(DOVETAIL_ALIAS_VIEW, 0, 0, 0)
    return workload.capsule(DOVETAIL_WORKLOAD_ELIDABLE)
