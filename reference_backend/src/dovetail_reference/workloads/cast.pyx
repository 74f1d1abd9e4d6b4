"""Cast between all element types; the rules stand in `dovetail.layers.elementwise.Cast`."""

from dovetail_reference.workloads.block_walks cimport block_walk, new_block_walk
from dovetail_reference.workloads.walking cimport plan_walk
from dovetail_reference.workloads.workload cimport state_of

from .movement import Copy, Relation, movement_workload


def create(layer, dtype):
    """Make the workload capsule; a cast to the same type is a view."""
    source, target = layer.inputs[0].info, layer.output.known_info
    shape, read, written = (source.elements,), (source.dtype.itemsize,), (target.dtype.itemsize,)
    if source.dtype is target.dtype:
        same = Copy(shape=shape, source_strides=read, target_strides=written, relation=Relation.VIEW)
        return movement_workload([same], source.dtype.itemsize)
    capsule = new_block_walk(sizeof(block_walk), (source, target))
    plan_walk(&(<block_walk *>state_of(capsule)).route, shape, (read, written))
    return capsule
