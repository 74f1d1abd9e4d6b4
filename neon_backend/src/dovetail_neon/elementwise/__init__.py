"""Compute element by element: functions of one or two, factors per channel, type conversions."""

from __future__ import annotations

WORKLOADS = {
    "CpuAcc.Apply": "apply.create_apply",
    "CpuAcc.Combine": "binary.create_combine",
    "CpuAcc.ScaleChannels": "apply.create_scale",
    "dovetail.Cast": "cast.create",
    "dovetail.ElementwiseBinary": "binary.create_binary",
    "dovetail.Prelu": "binary.create_prelu",
}

RULES = {
    "dovetail.ElementwiseBinary": "lowering.lower_binary",
}

FINER = {
    "dovetail.ElementwiseBinary": "support.broadcast",
    "dovetail.Prelu": "support.broadcast",
}
