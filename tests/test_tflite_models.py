"""Run TensorFlow Lite models against what LiteRT computed of them, where such models are there."""

from __future__ import annotations

from contextlib import suppress

import golden_files
import numpy as np
import pytest

import dovetail
from dovetail_tflite import parse

BACKENDS = (["CpuRef"], ["CpuAcc", "CpuRef"])
OPERATORS = golden_files.MODELS / "tflite_ops"
NOT_THERE_YET = {"UNIQUE", "WHERE", "WHILE"}
"""Operators that models may ask for in vain: some forms of WHILE, all of the others."""
NO_REFERENCE = {"transformer_tflite/static_w8_a16_quantized_q_einsum.rand.golden.npz"}
"""LiteRT takes the scale of weights that have one for each column to be 0, and gives zeros."""
CASES = [
    *((None, name) for name in golden_files.of_networks(".tflite") if name not in NO_REFERENCE),
    *((folder, name) for folder in ("gen", "litert", "tflm_seanet") for name in golden_files.of_operators(OPERATORS / folder)),
]


@pytest.mark.skipif(bool(CASES), reason="the tests below run them")
def test_there_are_models():
    pytest.skip(golden_files.ABSENT)


def loaded(model, backends):
    try:
        return dovetail.load(model, backends=backends)
    except dovetail.UnsupportedModelError as error:
        missing = {entry["op"] for entry in error.details["unsupported"]}
        if missing <= NOT_THERE_YET:
            pytest.skip(f"not there yet: {', '.join(sorted(missing))}")
        raise


@pytest.mark.parametrize("backends", BACKENDS, ids=",".join)
@pytest.mark.parametrize(("folder", "name"), CASES, ids=[name for _, name in CASES])
def test_a_model_gives_what_litert_gives(folder, name, backends):
    golden = golden_files.network(name) if folder is None else golden_files.operator(OPERATORS / folder, name)
    with loaded(golden.model, backends) as net:
        results = net.run(dict(zip([info.name for info in net.inputs], golden.inputs, strict=True)))
    assert golden_files.difference(list(results.values()), golden) == ""


SIGNATURES = {"add": np.add, "mul": np.multiply, "sub": np.subtract}
THREE = OPERATORS / "litert" / "js_multi_signature_model.tflite"


@pytest.mark.skipif(not THREE.is_file(), reason=golden_files.ABSENT)
@pytest.mark.parametrize("key", SIGNATURES)
def test_each_signature_of_a_model_is_a_function_of_its_own(key):
    with dovetail.load(parse(THREE, signature=key), backends=["CpuRef"]) as net:
        assert ([info.name for info in net.inputs], [info.name for info in net.outputs]) == (["b", "a"], ["output"])
        count = np.arange(1, 1 + np.prod(net.inputs[0].shape), dtype=np.float32).reshape(net.inputs[0].shape)
        feeds = {"a": 3 * count, "b": count}
        results = net.run(feeds)
    np.testing.assert_array_equal(results["output"], SIGNATURES[key](feeds["a"], feeds["b"]))


REJECTED = sorted((OPERATORS / "litert_reject").glob("*.tflite")) if OPERATORS.is_dir() else []


@pytest.mark.parametrize("path", REJECTED, ids=[path.stem for path in REJECTED])
def test_what_litert_refuses_is_refused_or_runs(path):
    """It never crashes; LiteRT itself aborts on one of these."""
    with suppress(dovetail.DovetailError), dovetail.load(path, backends=["CpuRef"]):
        pass
