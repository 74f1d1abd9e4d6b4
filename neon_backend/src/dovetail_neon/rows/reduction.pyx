"""Reductions of plain tensors, one group of neighbouring axes after the other."""

from libc.stdint cimport int64_t

from dovetail_neon.rows.parameters cimport ACC_AFTER_FACTOR, ACC_AFTER_LOGARITHM, ACC_AFTER_NOTHING, ACC_AFTER_ROOT
from dovetail_neon.rows.parameters cimport ACC_BEFORE_ABSOLUTE, ACC_BEFORE_NOTHING, ACC_BEFORE_SQUARE, ACC_REDUCE_LOG_SUM_EXP
from dovetail_neon.rows.parameters cimport ACC_REDUCE_MAXIMUM, ACC_REDUCE_MINIMUM, ACC_REDUCE_PRODUCT, ACC_REDUCE_SUM
from dovetail_neon.rows.parameters cimport acc_reduction, acc_reduction_stage
from dovetail_neon.workload.making cimport LONG_ROW, Kernels, Workload, new_workload, parts

import math

from dovetail_neon.rows.stages import stages_of


# How elements are combined, what is done to each before, and to the result after.
METHODS = {
    "sum": (ACC_REDUCE_SUM, ACC_BEFORE_NOTHING, ACC_AFTER_NOTHING),
    "mean": (ACC_REDUCE_SUM, ACC_BEFORE_NOTHING, ACC_AFTER_FACTOR),
    "max": (ACC_REDUCE_MAXIMUM, ACC_BEFORE_NOTHING, ACC_AFTER_NOTHING),
    "min": (ACC_REDUCE_MINIMUM, ACC_BEFORE_NOTHING, ACC_AFTER_NOTHING),
    "prod": (ACC_REDUCE_PRODUCT, ACC_BEFORE_NOTHING, ACC_AFTER_NOTHING),
    "l1": (ACC_REDUCE_SUM, ACC_BEFORE_ABSOLUTE, ACC_AFTER_NOTHING),
    "l2": (ACC_REDUCE_SUM, ACC_BEFORE_SQUARE, ACC_AFTER_ROOT),
    "sum_square": (ACC_REDUCE_SUM, ACC_BEFORE_SQUARE, ACC_AFTER_NOTHING),
    "log_sum": (ACC_REDUCE_SUM, ACC_BEFORE_NOTHING, ACC_AFTER_LOGARITHM),
    "log_sum_exp": (ACC_REDUCE_LOG_SUM_EXP, ACC_BEFORE_NOTHING, ACC_AFTER_NOTHING),
}


def create(layer, Kernels kernels):
    """Return the workload of a `Reduce`."""
    cdef Workload workload = new_workload(sizeof(acc_reduction), len(layer.inputs), 1)
    cdef acc_reduction *s = <acc_reduction *>workload.state.parameters
    cdef acc_reduction_stage *stage
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
        stage.before = before if first else ACC_BEFORE_NOTHING
        stage.after = after if last else ACC_AFTER_NOTHING
        count = math.prod(info.sizes) // results
        stage.factor = 1.0 / count if count else math.inf
        stage.chunks = 1 if inner == 1 else max(1, min(inner // 256, parts(32, max(outer, 1))), inner // LONG_ROW)
        stage.source = -1 if first else s.stages[number - 1].target
        stage.target = -1 if last else scratch
        scratch += 0 if last else outer * inner
        items = outer * stage.chunks
        each = 1.5 if combine == ACC_REDUCE_LOG_SUM_EXP else 0.1
        workload.phase(kernels.table.reduction.stages[number], items, outer * (size * inner * each + 8.0))
    workload.state.shared = scratch * sizeof(float)
    return workload.capsule()
