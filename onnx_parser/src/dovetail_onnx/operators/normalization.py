"""Normalizations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail import Constant
from dovetail.graph.layer import OutputSlot

from ..node import Node
from ..registry import builtin
from ..unsupported import Unsupported


@builtin("BatchNormalization", ignored=["momentum", "is_test", "consumed_inputs"])
def batch_normalization(node: Node) -> OutputSlot:
    """Translate batch normalization by given statistics."""
    if node.flag("training_mode"):
        raise Unsupported("training mode: the statistics are those of the batch", attribute="training_mode")
    if not node.flag("spatial", True):
        raise Unsupported("statistics per position, not per channel", attribute="spatial")
    x = node.input(0)
    parameters = [
        _like(node, node.input(i), x, node.label(part)) for i, part in enumerate(("scale", "offset", "mean", "variance"), 1)
    ]
    return node.network.batch_normalization(
        x, parameters[0], parameters[1], parameters[2], parameters[3], epsilon=node.floating("epsilon", 1e-5), name=node.label()
    )


def _like(node: Node, parameter: OutputSlot, x: OutputSlot, name: str) -> OutputSlot:
    dtype = node.dtype_of(x)
    return parameter if node.dtype_of(parameter) is dtype else node.network.cast(parameter, dtype, name=name)


@builtin("InstanceNormalization", ignored=["consumed_inputs"])
def instance_normalization(node: Node) -> OutputSlot:
    """Translate normalization of each channel of each image."""
    return node.network.instance_normalization(
        node.input(0), node.input(1), node.input(2), epsilon=node.floating("epsilon", 1e-5), name=node.label()
    )


# The stash type is the type that the statistics are made in; backends choose at least float32.
@builtin("GroupNormalization", since=21, ignored=["stash_type"])
def group_normalization(node: Node) -> OutputSlot:
    """Translate normalization of groups of channels, scaled per channel."""
    return node.network.group_normalization(
        node.input(0),
        node.input(1),
        node.input(2),
        groups=node.integer("num_groups"),
        epsilon=node.floating("epsilon", 1e-5),
        name=node.label(),
    )


@builtin("GroupNormalization", since=18)
def group_normalization_18(node: Node) -> OutputSlot:
    """Translate normalization of groups of channels, scaled per group."""
    x, groups = node.input(0), node.integer("num_groups")
    channels = node.size_of(x, 1)
    if channels is None or groups < 1:
        raise Unsupported("a scale per group needs the number of channels while parsing", attribute="num_groups")
    node.check_affordable(channels, "the scale per channel")
    per_channel = [_repeated(node, i, channels // groups, part) for i, part in ((1, "scale"), (2, "offset"))]
    epsilon = node.floating("epsilon", 1e-5)
    return node.network.group_normalization(x, *per_channel, groups=groups, epsilon=epsilon, name=node.label())


def _repeated(node: Node, index: int, times: int, part: str) -> OutputSlot:
    slot, net = node.input(index), node.network
    if isinstance(slot.layer.descriptor, Constant):
        return net.constant(np.repeat(slot.layer.descriptor.value, times), node.label(part), dtype=slot.dtype)
    column = net.expand_dims(slot, 1, name=node.label(f"{part}_column"))
    return net.reshape(net.tile(column, [1, times], name=node.label(f"{part}_tiled")), [-1], name=node.label(part))


@builtin("LayerNormalization", ignored=["stash_type"])
def layer_normalization(node: Node) -> Sequence[OutputSlot | None]:
    """Translate layer normalization; compute mean and inverse deviation beside it if wanted."""
    x, axis, epsilon = node.input(0), node.integer("axis", -1), node.floating("epsilon", 1e-5)
    y = node.network.layer_normalization(x, node.input(1), node.optional(2), axis=axis, epsilon=epsilon, name=node.label())
    if not node.wants(1) and not node.wants(2):
        return [y]
    rank = node.known_rank(x, "statistics over the axes from one on are wanted")
    axes = range(axis % rank if rank else 0, rank)
    net = node.network
    mean = net.mean(x, list(axes), keep_dims=True, name=node.label("mean"))
    squares = net.binary(x, mean, "squared_difference", name=node.label("squares"))
    variance = net.mean(squares, list(axes), keep_dims=True, name=node.label("variance"))
    shifted = net.addition(variance, node.scalar(epsilon, variance, "epsilon"), name=node.label("shifted"))
    return [y, mean, net.unary(shifted, "rsqrt", name=node.label("inverse_deviation"))]


@builtin("RMSNormalization", ignored=["stash_type"])
def rms_normalization(node: Node) -> OutputSlot:
    """Translate normalization by the root mean square."""
    return node.network.layer_normalization(
        node.input(0),
        node.input(1),
        axis=node.integer("axis", -1),
        epsilon=node.floating("epsilon", 1e-5),
        center=False,
        name=node.label(),
    )


@builtin("LpNormalization")
def lp_normalization(node: Node) -> OutputSlot:
    """Translate division by the norm; ONNX gives zeros where the norm is zero."""
    smallest = float(np.finfo(np.float32).tiny)
    return node.network.lp_normalization(
        node.input(0), node.integer("axis", -1), p=node.integer("p", 2), epsilon=smallest, name=node.label()
    )


@builtin("LRN")
def local_response_normalization(node: Node) -> OutputSlot:
    """Translate normalization by neighbouring channels."""
    return node.network.local_response_normalization(
        node.input(0),
        node.integer("size"),
        alpha=node.floating("alpha", 1e-4),
        beta=node.floating("beta", 0.75),
        k=node.floating("bias", 1.0),
        name=node.label(),
    )
