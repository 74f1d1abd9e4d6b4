"""Two tensors element by element."""

from libc.stdint cimport int64_t

from dovetail_neon.elementwise.parameters cimport ACC_MAX_AXES, acc_elementwise
from dovetail_neon.workload.making cimport DOVETAIL_ALIAS_IN_PLACE, LONG_ROW, Kernels, Workload, new_workload, parts

import math

from dovetail_neon.elementwise.codes import OPERATIONS
from dovetail_neon.elementwise.functions import IDENTITY, function_of
from dovetail_neon.geometry.layouts import elements


def create_binary(layer, Kernels kernels):
    """Return the workload of a plain `ElementwiseBinary`."""
    d = layer.descriptor
    function = function_of(d.activation, d.activation_alpha, d.activation_beta)
    shapes = [slot.info.sizes for slot in layer.inputs]
    return build(kernels, d.operation.value, function, shapes, layer.output.info.sizes)


def create_prelu(layer, Kernels kernels):
    """Return the workload of a `Prelu`."""
    return build(kernels, "prelu", IDENTITY, [slot.info.sizes for slot in layer.inputs], layer.output.info.sizes)


def create_combine(layer, Kernels kernels):
    """Return the workload of a `Combine`: as it lies in memory."""
    shape = (elements(layer.output.info),)
    return build(kernels, layer.descriptor.operation, layer.descriptor.function, [shape, shape], shape)


cdef object build(Kernels kernels, str operation, function, list shapes, tuple result):
    cdef Workload workload = new_workload(sizeof(acc_elementwise), 2, 1)
    cdef acc_elementwise *s = <acc_elementwise *>workload.state.parameters
    s.operation = OPERATIONS[operation]
    s.activation.function, s.activation.a, s.activation.b = function
    axes = merged_axes(shapes, result)
    *outer, (s.row, last_steps) = axes
    s.row_step[0], s.row_step[1] = last_steps
    s.axes = len(outer)
    for axis, (size, steps) in enumerate(outer):
        s.sizes[axis] = size
        s.steps[0][axis], s.steps[1][axis] = steps
    count = math.prod(result)
    rows = math.prod(size for size, _ in outer)
    s.chunks = max(1, min(s.row // 1024, parts(32, max(rows, 1))), s.row // LONG_ROW)
    if count:
        each = 0.15 + (0.8 if function != IDENTITY else 0.0) + (6.0 if operation in ("pow", "mod", "fmod") else 0.0)
        workload.phase(kernels.table.elementwise.binary, rows * s.chunks, count * each + rows * 4.0)
    for operand, shape in enumerate(shapes):
        if tuple(shape) == tuple(result):
            workload.alias(DOVETAIL_ALIAS_IN_PLACE, 0, operand, 0)
    return workload.capsule()


def merged_axes(shapes, result):
    """Merge neighbouring axes along which every operand is read on, or is broadcast.

    Each merged axis is (size, steps of the operands).

    >>> merged_axes([(2, 3, 4), (4,)], (2, 3, 4))
    [(6, (4, 0)), (4, (1, 1))]
    """
    steps = []
    for shape in shapes:
        padded = (1,) * (len(result) - len(shape)) + tuple(shape)
        step, found = 1, []
        for size in reversed(padded):
            found.append(0 if size == 1 else step)
            step *= size
        steps.append(found[::-1])
    axes = []
    for size, *own in zip(result, *steps):
        if size == 1:
            continue
        if axes and all(before == step * size for before, step in zip(axes[len(axes) - 1][1], own)):
            axes[len(axes) - 1] = (axes[len(axes) - 1][0] * size, tuple(own))
        else:
            axes.append((size, tuple(own)))
    if len(axes) > ACC_MAX_AXES:
        raise ValueError(f"operands of {len(result)} axes that cannot be merged below {ACC_MAX_AXES}")
    return axes or [(1, (0, 0))]
