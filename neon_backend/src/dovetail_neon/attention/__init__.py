"""Attention: what a model spells out in a dozen layers as one, whose scores never leave the cache.

`matching` finds it in a graph.
"""

from __future__ import annotations

WORKLOADS = {
    "CpuAcc.Attention": "attention.create",
}
