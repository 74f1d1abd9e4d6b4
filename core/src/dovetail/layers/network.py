"""The network: a graph with one builder method per layer kind."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..graph.graph import Graph

if TYPE_CHECKING:
    from .. import layers

    class _Builders(
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
        """What type checkers see."""

else:
    _FAMILIES = [
        *("activation", "elementwise", "convolution", "pooling", "reshaping", "matrix", "normalization"),
        *("reduction", "joining", "indexing", "generating", "quantizing", "resizing", "branching"),
    ]
    """Families whose builder methods are not there yet: those first that most networks have."""

    def _adopt(family: str) -> None:
        """Take the builder methods of a family along."""
        methods = getattr(import_module(f".{family}", __package__), f"{family.capitalize()}Layers")
        for name, method in vars(methods).items():
            if not name.startswith("__"):
                setattr(_Builders, name, method)
        with suppress(ValueError):  # another thread did the same
            _FAMILIES.remove(family)

    def _find(name: str, whose: str) -> Any:
        """Return a builder method.

        Raises:
            AttributeError: No family has it.
        """
        while _FAMILIES and not name.startswith("_") and name not in vars(_Builders):
            _adopt(_FAMILIES[0])
        if name not in vars(_Builders):
            raise AttributeError(f"{whose} has no attribute {name!r}")
        return vars(_Builders)[name]

    class _LateMethods(type):
        """Looks for builder methods that are not there yet when one is asked for."""

        def __getattr__(cls, name: str) -> Any:
            return _find(name, f"type object {cls.__name__!r}")

        def __dir__(cls) -> list[str]:
            for family in list(_FAMILIES):
                _adopt(family)
            return super().__dir__()

    class _Builders(Graph, metaclass=_LateMethods):
        def __getattr__(self, name: str) -> Any:
            return _find(name, f"{type(self).__name__!r} object").__get__(self)

        def __dir__(self) -> list[str]:
            return [*super().__dir__(), *dir(type(self))]


class Network(_Builders):
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
