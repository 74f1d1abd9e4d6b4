"""Chains of convolutions and depthwise ones that run strip by strip, so that what lies between them stays in the L2 cache.

`joining` says which layers run together.
"""

from __future__ import annotations

WORKLOADS = {
    "CpuAcc.Strips": "strips.create",
}
