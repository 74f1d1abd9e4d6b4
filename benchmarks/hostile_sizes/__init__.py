"""Networks of hostile sizes, of every kind of layer, by name."""

from . import elementwise, folds, moves, products, recurrent, reductions, resizes, selections, windows
from .case import CASES, Case

__all__ = ["CASES", "Case"]

for _family in (elementwise, selections, moves, reductions, resizes, windows, products, recurrent, folds):
    _family.enter_cases()
