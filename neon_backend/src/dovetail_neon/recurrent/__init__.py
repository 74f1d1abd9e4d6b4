"""Recurrent layers: over sequences, step by step, with weights that stay packed.

A layer becomes a private one that holds its weights. The inputs of some steps are multiplied at
once; threads share out what is large enough, within a step.
"""

from __future__ import annotations

WORKLOADS = {
    "CpuAcc.QuantizedLstm": "quantized_lstm.create",
    "CpuAcc.QuantizedSvdf": "quantized_svdf.create",
    "CpuAcc.Recurrence": "recurrence.create",
}

RULES = {
    "dovetail.Gru": "lowering.lower_recurrence",
    "dovetail.Lstm": "lowering.lower_recurrence",
    "dovetail.QuantizedLstm": "quantized_lowering.lower_quantized_lstm",
    "dovetail.QuantizedSvdf": "quantized_lowering.lower_quantized_svdf",
    "dovetail.Rnn": "lowering.lower_recurrence",
}
