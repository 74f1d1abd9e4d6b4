"""Run chains of convolutions and depthwise ones by strips: what lies between stays in the L2 cache.

`joining` says which layers run together.
"""

from __future__ import annotations

WORKLOADS = {
    "CpuAcc.Strips": "strips.create",
}
