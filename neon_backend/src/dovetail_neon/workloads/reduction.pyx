"""Reductions of plain tensors, one group of neighbouring axes after the other."""

from libc.stdint cimport int64_t

from dovetail_neon.interface.reduction cimport (
    NEON_AFTER_FACTOR,
    NEON_AFTER_LOGARITHM,
    NEON_AFTER_NOTHING,
    NEON_AFTER_ROOT,
    NEON_BEFORE_ABSOLUTE,
    NEON_BEFORE_NOTHING,
    NEON_BEFORE_SQUARE,
    NEON_REDUCE_LOG_SUM_EXP,
    NEON_REDUCE_MAXIMUM,
    NEON_REDUCE_MINIMUM,
    NEON_REDUCE_PRODUCT,
    NEON_REDUCE_SUM,
    neon_reduction,
    neon_reduction_stage,
)
from dovetail_neon.kernels cimport Kernels
from dovetail_neon.workloads.rounding cimport parts
from dovetail_neon.workloads.workload cimport LONG_ROW, Workload, new_workload

import math

from dovetail_neon.stages import stages_of


# How elements are combined, what is done to each before, and to the result after.
METHODS = {
    "sum": (NEON_REDUCE_SUM, NEON_BEFORE_NOTHING, NEON_AFTER_NOTHING),
    "mean": (NEON_REDUCE_SUM, NEON_BEFORE_NOTHING, NEON_AFTER_FACTOR),
    "max": (NEON_REDUCE_MAXIMUM, NEON_BEFORE_NOTHING, NEON_AFTER_NOTHING),
    "min": (NEON_REDUCE_MINIMUM, NEON_BEFORE_NOTHING, NEON_AFTER_NOTHING),
    "prod": (NEON_REDUCE_PRODUCT, NEON_BEFORE_NOTHING, NEON_AFTER_NOTHING),
    "l1": (NEON_REDUCE_SUM, NEON_BEFORE_ABSOLUTE, NEON_AFTER_NOTHING),
    "l2": (NEON_REDUCE_SUM, NEON_BEFORE_SQUARE, NEON_AFTER_ROOT),
    "sum_square": (NEON_REDUCE_SUM, NEON_BEFORE_SQUARE, NEON_AFTER_NOTHING),
    "log_sum": (NEON_REDUCE_SUM, NEON_BEFORE_NOTHING, NEON_AFTER_LOGARITHM),
    "log_sum_exp": (NEON_REDUCE_LOG_SUM_EXP, NEON_BEFORE_NOTHING, NEON_AFTER_NOTHING),
}


def create(layer, Kernels kernels):
    """Return the workload of a `Reduce`."""
    cdef Workload workload = new_workload(sizeof(neon_reduction), len(layer.inputs), 1)
    cdef neon_reduction *s = <neon_reduction *>workload.state.parameters
    cdef neon_reduction_stage *stage
    cdef int64_t scratch = 0
    cdef int number = 0
    info, result = layer.inputs[0].info, layer.output.info
    combine, before, after = METHODS[layer.descriptor.function.value]
    results = math.prod(result.sizes)
    if results == 0:
        return workload.capsule()
    plan = stages_of(info.sizes, layer.descriptor.reduced_axes(info.rank))
    for number, (outer, size, inner) in enumerate(plan):
        stage = &s.stages[number]
        first, last = number == 0, number == len(plan) - 1
        stage.outer, stage.size, stage.inner = outer, size, inner
        stage.combine = combine
        stage.before = before if first else NEON_BEFORE_NOTHING
        stage.after = after if last else NEON_AFTER_NOTHING
        count = math.prod(info.sizes) // results
        stage.factor = 1.0 / count if count else math.inf
        stage.chunks = 1 if inner == 1 else max(1, min(inner // 256, parts(32, max(outer, 1))), inner // LONG_ROW)
        stage.source = -1 if first else s.stages[number - 1].target
        stage.target = -1 if last else scratch
        scratch += 0 if last else outer * inner
        items = outer * stage.chunks
        each = 1.5 if combine == NEON_REDUCE_LOG_SUM_EXP else 0.1
        workload.phase(kernels.table.reduction.stages[number], items, outer * (size * inner * each + 8.0))
    workload.state.shared = scratch * sizeof(float)
    return workload.capsule()
