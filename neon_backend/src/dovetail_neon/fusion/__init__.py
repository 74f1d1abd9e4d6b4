"""Rewrite a claimed part of a graph: fuse what belongs together, choose layouts, emit private layers.

`chains` finds what one kernel can do together, `patterns` functions that a model spells out. `rewriting` walks the part;
`images`, `transposed`, `matrices` and `attention` say what a layer becomes, and the `lowering` holds it in the layouts in which
it is there. At last `strips` and `moves` join what was made, and `bfloat16` rounds it.
"""

from .rewriting import lower

__all__ = ["lower"]
