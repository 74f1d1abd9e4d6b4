"""A small network, and where its layers are placed."""

from __future__ import annotations

import numpy as np

from dovetail.layers.network import Network
from dovetail.optimizer import OptimizedNetwork


def small() -> Network:
    net = Network("small")
    x = net.input("x", (1, 3, 4, 4))
    y = net.convolution2d(x, np.ones((2, 3, 1, 1), np.float32), name="conv")
    y = net.softmax(y, name="soft")
    net.output(net.sigmoid(y, name="last"), "y")
    return net


def homes(network: OptimizedNetwork) -> dict[str, str]:
    return {name: "core" if one is None else str(one.backend.id) for name, one in network.assignment.items()}
