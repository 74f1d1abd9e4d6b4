"""Private layers: what a backend rewrites its parts to.

The core plans them, and knows nothing of them but their tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from ..graph.descriptor import Descriptor, Infos, descriptor_class
from ..graph.layer import Layer
from ..graph.tensor import TensorInfo


@descriptor_class
class PrivateLayer(Descriptor):
    """Base of a backend's private kinds: whoever rewrites knows every info, so nothing is inferred.

    ::

        @descriptor_class
        class Fused(PrivateLayer, kind="acme.Fused"):
            weights: np.ndarray

    Attributes:
        infos: Of the outputs.
    """

    input_names: ClassVar[tuple[str, ...]] = ("input",)
    required_inputs: ClassVar[int] = 0
    variadic: ClassVar[bool] = True
    infos: tuple[TensorInfo, ...]

    # It may hold arrays and handles: it equals itself alone.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def output_count(self) -> int:
        return len(self.infos)

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        return self.infos

    def release(self) -> None:
        """Release all arrays, those of private layers among the attributes too.

        No workload can be made of it any more.
        """
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                object.__setattr__(self, name, None)
            elif isinstance(value, tuple):
                for part in value:
                    if isinstance(part, PrivateLayer):
                        part.release()


@descriptor_class
class WholePart(PrivateLayer, kind="dovetail.WholePart"):
    """A part that a backend runs as one workload; `OptimizationViews.compile_whole` makes it.

    Attributes:
        compile: Makes the workload when the network is loaded, given the factory that is asked for
            it.
        words: What it is, for people.
        steps: What its steps are, for people: names and words.
    """

    compile: Callable[[Any], Any]
    words: str = ""
    steps: tuple[tuple[str, str], ...] = ()

    def in_words(self) -> str:
        return self.words

    def steps_in_words(self) -> Sequence[tuple[str, str]]:
        return self.steps

    def release(self) -> None:
        """Release what was to be compiled."""
        object.__setattr__(self, "compile", None)


def make_workload(factory: Any, layer: Layer) -> Any:
    """Return what an `IWorkloadFactory` makes of a layer; of a `WholePart` what it compiles to."""
    if isinstance(layer.descriptor, WholePart):
        return layer.descriptor.compile(factory)
    return factory.create_workload(layer)
