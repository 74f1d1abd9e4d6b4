"""Arithmetic of quantized tensors that backends share: TensorFlow Lite's, to the bit.

`bounds` says what a clamp comes to, `fixed_point` what a real factor does to an integer, `tables`
what any function of one element makes of each byte.
"""
