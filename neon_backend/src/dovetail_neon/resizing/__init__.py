"""Images of another size. `taps` says what each result is the weighted sum of."""

from __future__ import annotations

WORKLOADS = {
    "CpuAcc.Resample": "resample.create",
}

RULES = {
    "dovetail.Resize": "lowering.lower_resize",
}

FINER = {
    "dovetail.Resize": "support.refusal",
}
