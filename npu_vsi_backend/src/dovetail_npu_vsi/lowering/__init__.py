"""From a part of a network to a program.

`storage` keeps in which order of axes each tensor is stored and puts permutations where the order
changes; a module for each family of layers says what their operations are. Integers are uint8
throughout: int8 is that with 128 added, to elements and zero points alike, so nothing is lost and
the convolution engine takes it as it is.
"""

from .part import Lowered, lower
from .resampling import refusal as resize_refusal

__all__ = ["Lowered", "lower", "resize_refusal"]
