"""Tuning: measure the ways to compute that backends offer here, and remember the fastest.

`measuring` measures, `interference` tells when other processes took the processor meanwhile,
`report` is what the caller gets. What was found is kept where loads look for it:
`dovetail.optimizer.tuned_choices`.
"""

from .measuring import tune
from .report import LayerTuning, TuningReport

__all__ = ["LayerTuning", "TuningReport", "tune"]
