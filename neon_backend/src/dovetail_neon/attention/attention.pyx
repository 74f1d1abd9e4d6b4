"""Attention of all heads in one step."""

from libc.stdint cimport int64_t

from dovetail_neon.attention.parameters cimport acc_attention
from dovetail_neon.workload.making cimport Kernels, Workload, new_workload, parts

import math


cdef enum:
    BLOCK_ROWS = 32             # queries whose scores are held at once
    BLOCK_BYTES = 262144        # what their scores may take: some of the L2 cache
    MIN_ROWS = 6


def create(layer, Kernels kernels):
    """Return the workload of an `Attention`."""
    d = layer.descriptor
    cdef bint masked = len(layer.inputs) > 3
    cdef Workload workload = new_workload(sizeof(acc_attention), 3 + masked, 1)
    cdef acc_attention *a = <acc_attention *>workload.state.parameters
    cdef int lanes = kernels.table.lanes
    q, k, v, *mask = (info.sizes for info in layer.input_infos)
    a.batches, a.queries, a.keys, a.heads = q[0], q[1], k[1], d.heads
    a.size, a.value_size, a.scale = q[2] // d.heads, v[2] // d.heads, d.scale
    if (
        q[2] != a.size * a.heads or k != (a.batches, a.keys, q[2]) or v != (a.batches, a.keys, a.value_size * a.heads)
        or layer.output.info.sizes != (a.batches, a.queries, v[2])
    ):
        raise ValueError(f"{layer.name!r} is no attention of {d.heads} heads: q {q}, k {k}, v {v}")
    if masked:
        full = (a.batches, a.heads, a.queries, a.keys)
        if len(mask[0]) != 4 or any(size not in (1, whole) for size, whole in zip(mask[0], full)):
            raise ValueError(f"mask {mask[0]} of {layer.name!r} does not fit scores {full}")
        a.mask_batch_step, a.mask_head_step, a.mask_query_step, a.mask_key_step = (
            0 if size == 1 else math.prod(mask[0][axis + 1:]) for axis, size in enumerate(mask[0]))
        a.masked = 1
    if layer.output.info.nbytes == 0:
        return workload.capsule()
    cdef int64_t key_vectors = parts(a.keys, lanes), value_vectors = parts(a.value_size, lanes), most, heads, items
    heads = a.batches * a.heads
    a.key_panels, a.value_panels = parts(key_vectors, kernels.table.matmul.vectors), parts(value_vectors, kernels.table.matmul.vectors)
    most = max(MIN_ROWS, min(BLOCK_ROWS, BLOCK_BYTES // max(1, key_vectors * lanes * 4)))
    a.blocks = parts(a.queries, most)
    a.block_rows = parts(a.queries, a.blocks)
    a.packed_values = heads * key_vectors * lanes * a.size
    workload.state.shared = (a.packed_values + heads * value_vectors * lanes * a.keys) * 4
    workload.state.per_worker = (a.block_rows * key_vectors * lanes + a.block_rows) * 4
    packing = heads * a.keys * (a.size + a.value_size) / 6.0
    workload.phase(kernels.table.attention.pack, heads, packing)
    nanoseconds = heads * a.queries * key_vectors * ((a.size + a.value_size) / 5.0 + 6.0)
    items = heads * a.blocks
    workload.phase(kernels.table.attention.run, items, nanoseconds)
    return workload.capsule()
