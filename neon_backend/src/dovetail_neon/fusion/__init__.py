"""Rewrite a claimed part of a graph: fuse what belongs together, choose layouts, emit private layers.

`chains` finds what one kernel can do together, `patterns` functions that a model spells out; `lowering` walks the part, and
`images`, `transposed` and `matrices` say what a layer becomes; `strips` and `moves` join what was made, `bfloat16` rounds it.
"""

from .lowering import lower

__all__ = ["lower"]
