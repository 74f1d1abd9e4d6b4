"""Rewrite a claimed part of a graph: fuse layers, choose layouts, emit private layers.

`rewriting` walks the part and asks the families what their layers become. `chains` finds what one
kernel can do together, `patterns` functions that a model spells out; the `lowering` holds the
replacement in the layouts in which it is there. At last `precision` rounds products, and the
families join what runs strip by strip and what only moves elements.
"""
