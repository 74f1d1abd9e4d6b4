"""Mutation fuzzing of model files, seeded and reproducible.

Each mutant runs in a child process with limits of memory and time.

Mutant ``k`` of seed ``S`` is always the same bytes and the same inputs, as long as the packages
`onnx` and `numpy` stay the same: the digest in the report tells whether two runs began with the
same models. `python -m tools.fuzz --help` lists options.
"""
