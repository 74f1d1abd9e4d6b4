"""Post-training quantization: what `dovetail quantize` does, by concern.

`samples` reads the data, `preparing` simplifies the network, `planning` says which layers compute
with integers, `calibration` and `ranges` find the scales, `correction` takes the mean error of
rounded weights out of the biases, `rewriting` inserts the layers that quantize and dequantize,
`report` measures what it costs, `quantizer` does all of that in order.
"""
