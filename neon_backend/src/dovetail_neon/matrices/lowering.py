"""What matrix products with constant weights become."""

from __future__ import annotations

import math

from dovetail.layers import FullyConnected, MatMul

from ..convolution.kinds import Convolve
from ..fusion.chains import Chain
from ..fusion.lowering import Lowering
from ..geometry.layouts import Image, plain_info
from ..geometry.window import POINT


def lower_product(lowering: Lowering, chain: Chain) -> None:
    """A product of rows with a matrix [N, K], or [K, N], with what follows it."""
    descriptor, source, weights = chain.root.descriptor, chain.root.inputs[0].source, chain.root.constant(1)
    if source is None or weights is None:
        raise ValueError(f"{chain.root.name!r} has no input or no weights")
    if isinstance(descriptor, MatMul) and not descriptor.transpose_b:
        weights = weights.T
    elif not isinstance(descriptor, MatMul | FullyConnected):
        raise TypeError(f"{chain.root.name!r} is no matrix product")
    filters, channels = weights.shape
    rows = math.prod(source.known_info.sizes[:-1])
    convolve = Convolve(
        infos=(plain_info(chain.output.known_info.sizes),),
        weights=weights[:, None, :],
        bias=chain.bias,
        source=Image(1, channels, rows, 1),
        target=Image(1, filters, rows, 1),
        geometry=POINT,
        function=chain.function,
    )
    inputs = [lowering.plain(source)] + ([] if chain.adds is None else [lowering.plain(chain.adds)])
    lowering.define(chain.output, lowering.emit(convolve, inputs, chain.layers).output)
