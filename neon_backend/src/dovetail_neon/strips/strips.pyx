"""Chains of convolutions and depthwise ones, computed together strip by strip."""

from libc.stdint cimport int64_t

from dovetail_neon.convolution cimport direct as convolution
from dovetail_neon.strips.parameters cimport ACC_LONGEST_CHAIN, acc_stage, acc_strips
from dovetail_neon.windows cimport windows
from dovetail_neon.workload.making cimport Kernels, Workload, new_workload

from dovetail_neon.windows.kinds import Depthwise

cdef enum:
    STRIP_BYTES = 768 << 10     # a part of the L2 cache, which also holds what is read and written meanwhile
    CHUNKS_PER_WORKER = 2       # few: where one ends and another begins, rows are computed twice
    LONG_STRIPS = 1_000_000     # nanoseconds: the stop word is read before each strip of a layer that takes longer


cdef double describe(Workload workload, acc_stage *s, object stage, object source, object name, bint adds, Kernels kernels) except -1:
    """Fill in one layer, which reads what `source` describes; return its cost in nanoseconds."""
    cdef int lanes = kernels.table.lanes
    height, width = stage.target[2:]
    s.row, s.block_step = width * lanes, height * width * lanes
    geometry = stage.geometry
    s.in_height, s.stride, s.padding = stage.source[2], geometry.stride[0], geometry.padding[0]
    s.reach = (geometry.kernel[0] - 1) * geometry.dilation[0] + 1
    s.is_windows = isinstance(stage, Depthwise)
    if s.is_windows:
        windows.describe(&s.windows, stage, lanes)
        windows.give_filters(workload, &s.windows, stage, name, kernels)
        return windows.cost(&s.windows)
    convolution.describe(workload, &s.convolution, stage, name, source, stage.infos[0], adds, kernels)
    return convolution.cost(&s.convolution)


cdef int64_t plan(acc_strips *p, int64_t rows) noexcept:
    """Lay out the strips for so many rows of the result at a time; answers with their bytes."""
    cdef int64_t at = 0, blocks, k
    for k in range(p.stages - 2, -1, -1):
        after, s = &p.stage[k + 1], &p.stage[k]
        blocks = s.windows.blocks if s.is_windows else s.convolution.panel_vector[s.convolution.panels]
        rows = min((rows - 1) * after.stride + after.reach, after.in_height)
        s.strip, s.block_step = at, rows * s.row
        at += blocks * s.block_step
    return at * sizeof(float)


cdef int64_t fitting_rows(acc_strips *p, int64_t rows) noexcept:
    """The most rows of the result whose strips fit, up to so many; strips grow with the rows."""
    cdef int64_t least = 1, middle
    if plan(p, rows) <= STRIP_BYTES:
        return rows
    while rows - least > 1:     # `least` fits or is 1, `rows` does not
        middle = least + (rows - least) // 2
        if plan(p, middle) <= STRIP_BYTES:
            least = middle
        else:
            rows = middle
    return least


def create(layer, Kernels kernels):
    """Return the workload of a `Strips`."""
    d = layer.descriptor
    cdef int count = len(d.stages), k
    if not 2 <= count <= ACC_LONGEST_CHAIN:
        raise ValueError(f"{layer.name!r}: a chain of {count} layers; 2 to {ACC_LONGEST_CHAIN} were expected")
    cdef bint adds = len(layer.inputs) > 1
    cdef Workload workload = new_workload(sizeof(acc_strips), 1 + adds, 1)
    cdef acc_strips *p = <acc_strips *>workload.state.parameters
    cdef double nanoseconds = 0
    batch, _, p.out_height, _ = d.stages[count - 1].target
    p.stages = count
    source = layer.inputs[0].info
    for k, stage in enumerate(d.stages):
        nanoseconds += describe(workload, &p.stage[k], stage, source, layer.name, adds and k == count - 1, kernels)
        source = stage.infos[0]
    p.rows = fitting_rows(p, max(p.out_height, 1))
    p.polls = nanoseconds > LONG_STRIPS
    workload.state.per_worker = plan(p, p.rows)
    for k in range(1, count):
        p.stage[k].convolution.source.block_step = p.stage[k - 1].block_step
    items = batch * p.out_height if layer.output.info.nbytes else 0
    workload.phase(kernels.strips_of(d.stages).run, items, nanoseconds, 1, CHUNKS_PER_WORKER)
    return workload.capsule()
