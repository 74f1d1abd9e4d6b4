"""What is multiplied on a CPU, bytes or shorts, and what becomes of the sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dovetail import DType, Layer
from dovetail.ground.records import NamedTuple

from ..convolution.geometry import Geometry
from ..convolution.tiles import vector_of
from ..driver.arguments import Argument, ConstantArray
from ..elementwise import input_info
from ..kernels import TYPES, Kernels
from .arithmetic import SOURCE
from .scaling import Scaling, whole_weights

_CHUNKS = {4: 64, 2: 16}
"""Elements that are packed together, by the factors of a term; CHUNK of the source."""


class Terms(NamedTuple):
    """What is multiplied, and what becomes of the sums.

    Attributes:
        factors: Of a term of 32 bits.
        dtype: Of weights.
        weights: Less their zero points, [group, filter, depth].
        bias: Less what stands for zero in each product, [group, filter].
        outside: A term of what lies outside of images.
        defined: What sources want to be defined.
        arguments: The last ones of a kernel.
    """

    factors: int
    dtype: Any
    weights: npt.NDArray[Any]
    bias: npt.NDArray[np.int32]
    outside: int
    defined: dict[str, Any]
    arguments: tuple[Argument, ...]

    @property
    def files(self) -> str:
        """The sources before that of a kernel."""
        return f"{SOURCE} quantized/vectors.cl quantized/results.cl"

    @property
    def chunk(self) -> int:
        """Elements that are packed together."""
        return _CHUNKS[self.factors]

    @classmethod
    def of(cls, layer: Layer, geometry: Geometry, scaling: Scaling, kernels: Kernels) -> Terms:
        """Return what a product of a layer with constant weights needs."""
        weights, vector, dtype = whole_weights(layer, geometry, scaling), vector_of(kernels), input_info(layer, 0).dtype
        fits = weights.min(initial=0) >= -128 and weights.max(initial=0) <= 127
        factors = 4 if kernels.device.facts["multiplies_bytes"] and vector == 16 and fits else 2
        zero, given = scaling.zeros[0], layer.constant(2) if len(layer.inputs) > 2 else None
        of_bytes = zero + 128 if dtype is DType.INT8 else zero
        seen = weights.sum(2, dtype=np.int64) * (of_bytes if factors == 4 else zero)
        bias = (0 if given is None else given.astype(np.int64).reshape(seen.shape)) - seen
        counted = np.zeros(scaling.factors.size + 2 * vector, np.float32)  # whole vectors are read
        counted[: scaling.factors.size] = scaling.factors
        return cls(
            factors,
            np.int8 if factors == 4 else np.int16,
            weights,
            bias.astype(np.int32),
            int.from_bytes(np.full(factors, zero, dtype.numpy if factors == 4 else np.int16).tobytes(), "little"),
            {"T": TYPES[dtype], "VECTOR": vector, "FACTORS": factors},
            (ConstantArray(counted), np.array((scaling.zeros[1], *scaling.bounds), np.int32)),
        )
