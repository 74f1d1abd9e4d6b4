"""Batch, instance and group normalization of plain tensors."""

from libc.stdint cimport int64_t

from dovetail_neon.rows.parameters cimport acc_affine, acc_column_normalization, acc_group_normalization
from dovetail_neon.workload.making cimport DOVETAIL_ALIAS_IN_PLACE, Kernels, Workload, keep, new_workload, parts

import math
from functools import partial

import numpy as np

from dovetail.ground.pieces import mapped
from dovetail import DataLayout


def create_batch(layer, Kernels kernels):
    """Return the workload of a `BatchNormalization` with constant statistics.

    It has a factor and an offset per channel.
    """
    cdef Workload workload = new_workload(sizeof(acc_affine), 1, 1)
    cdef acc_affine *s = <acc_affine *>workload.state.parameters
    d, shape = layer.descriptor, layer.output.info.sizes
    scale, offset, mean, variance = (layer.constant(i).reshape(-1) for i in range(1, 5))
    with np.errstate(all="ignore"):
        factor = mapped(partial(factors, d.epsilon), np.float64, scale, variance)
        s.factor, s.offset = keep(workload, factor), keep(workload, mapped(shifts, np.float32, offset, mean, factor))
    s.channels, s.inner = len(factor), math.prod(shape[2:]) if d.layout is DataLayout.NCHW else 1
    count = math.prod(shape)
    if count:
        items = count // s.inner if s.inner != 1 else count // s.channels
        workload.phase(kernels.table.normalization.affine, items, count * 0.15 + items * 3.0)
    workload.alias(DOVETAIL_ALIAS_IN_PLACE, 0, 0, 0)
    return workload.capsule()


def factors(epsilon, scale, variance):
    """What channels are multiplied by."""
    return scale.astype(np.float64) / np.sqrt(variance.astype(np.float64) + epsilon)


def shifts(offset, mean, factor):
    """And what is added."""
    return offset.astype(np.float64) - mean.astype(np.float64) * factor


def create_group(layer, Kernels kernels):
    """Return the workload of a `GroupNormalization`."""
    return build_groups(layer, kernels, layer.descriptor.groups)


def create_instance(layer, Kernels kernels):
    """Return the workload of an `InstanceNormalization`: groups of one channel, or columns."""
    shape = layer.output.info.sizes
    if layer.descriptor.layout is DataLayout.NCHW:
        return build_groups(layer, kernels, shape[1])
    cdef Workload workload = new_workload(sizeof(acc_column_normalization), 1, 1)
    cdef acc_column_normalization *s = <acc_column_normalization *>workload.state.parameters
    # A tensor of rank 1 is one pixel of one image.
    images, s.channels = (shape[0] if len(shape) > 1 else 1), shape[len(shape) - 1]
    s.pixels, s.epsilon = math.prod(shape[1:len(shape) - 1]), layer.descriptor.epsilon
    scale, offset = learned(layer, s.channels)
    s.scale, s.offset = keep(workload, scale), keep(workload, offset)
    count = math.prod(shape)
    if count:
        items = images * parts(s.channels, kernels.table.lanes)
        workload.phase(kernels.table.normalization.columns, items, count * 0.8)
    workload.alias(DOVETAIL_ALIAS_IN_PLACE, 0, 0, 0)
    return workload.capsule()


cdef object build_groups(layer, Kernels kernels, int64_t groups):
    cdef Workload workload = new_workload(sizeof(acc_group_normalization), 1, 1)
    cdef acc_group_normalization *s = <acc_group_normalization *>workload.state.parameters
    shape = layer.output.info.sizes
    s.groups, s.channels, s.inner = groups, shape[1] // max(groups, 1), math.prod(shape[2:])
    s.epsilon = layer.descriptor.epsilon
    scale, offset = learned(layer, shape[1])
    s.scale, s.offset = keep(workload, scale), keep(workload, offset)
    count = math.prod(shape)
    if count:
        items = shape[0] * groups
        workload.phase(kernels.table.normalization.groups, items, count * 0.3 + items * 10.0)
    workload.alias(DOVETAIL_ALIAS_IN_PLACE, 0, 0, 0)
    return workload.capsule()


def learned(layer, channels):
    """Scale and offset of each channel; 1 and 0 where they are left out."""
    given = [layer.constant(i) if i < len(layer.inputs) else None for i in (1, 2)]
    return [
        np.broadcast_to(np.float32(default), channels) if value is None else value
        for value, default in zip(given, (1.0, 0.0))
    ]
