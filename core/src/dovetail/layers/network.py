"""The network: a graph with one builder method per layer kind."""

from __future__ import annotations

from .. import layers


class Network(
    layers.ActivationLayers,
    layers.BranchingLayers,
    layers.ConvolutionLayers,
    layers.ElementwiseLayers,
    layers.GeneratingLayers,
    layers.IndexingLayers,
    layers.JoiningLayers,
    layers.MatrixLayers,
    layers.NormalizationLayers,
    layers.PoolingLayers,
    layers.QuantizingLayers,
    layers.ReductionLayers,
    layers.ReshapingLayers,
    layers.ResizingLayers,
):
    """A trained network, built layer by layer or by a parser.

    Every builder method takes output slots (or arrays, which become constants) and returns the
    output slot of the new layer::

        net = Network("example")
        x = net.input("x", (1, 3, 8, 8))
        y = net.relu(net.convolution2d(x, weights, bias, padding=1, name="stem"))
        net.output(y, "y")

    A kind from elsewhere goes in by its descriptor: ``net.add(MyKind(alpha=2.0), x)``.

    Attributes:
        files: All files that it was read from, where its parser says so.
    """

    files: tuple[str, ...] = ()
