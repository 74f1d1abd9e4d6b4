"""Networks of hostile sizes, of every kind of layer, by name."""

from . import elementwise, folds, moves, products, reductions, resizes, selections, windows
from .case import CASES, Case

__all__ = ["CASES", "Case"]

for _family in (elementwise, selections, moves, reductions, resizes, windows, products, folds):
    _family.enter_cases()
