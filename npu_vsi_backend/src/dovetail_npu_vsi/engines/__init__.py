"""Which engine of a chip runs an operation, and why where that is slow.

The rules are those by which the vendor's driver (ovxlib 1.2.30, driver CL769531) placed single
layers and short chains on the configurations of `chips.py`. `convolutions`, `windows` and `pairs`
have the ways in which it computes, which `estimate` follows; `folding` has what it makes part of
neighbours.
"""

from .convolutions import is_lopsided, reads_all_channels
from .interpolation import blends, blends_exactly
from .landing import NN, SH, TP, Landing, landing, multiplies_by_shader
from .pairs import adds_by_products
from .windows import averages_by_products, nearest_positions

__all__ = [
    "NN",
    "SH",
    "TP",
    "Landing",
    "adds_by_products",
    "averages_by_products",
    "blends",
    "blends_exactly",
    "is_lopsided",
    "landing",
    "multiplies_by_shader",
    "nearest_positions",
    "reads_all_channels",
]
