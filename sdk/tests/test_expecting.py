"""`dovetail run --expect`: outputs beside those of a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import Result

from dovetail import DType, Network, Quantization
from dovetail.optimizer import TensorSpec
from dovetail_sdk.expecting import Expected
from dovetail_sdk.verdicts import Comparison, Tolerance, Verdict

Invoke = Callable[..., Result]
RANDOM = np.random.default_rng(5)
Y, Z = TensorSpec("y", (2, 3), DType.FLOAT32), TensorSpec("z", (4,), DType.INT64)


def written(folder: Path, **arrays: Any) -> Path:
    path = folder / "golden.npz"
    np.savez(path, **arrays)
    return path


def floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def verdict(wanted: Any, found: Any, spec: TensorSpec = Y, quantized: bool = False, **tolerance: float) -> Verdict:
    return Verdict.of(spec, np.asarray(wanted), np.asarray(found), Tolerance(**tolerance), "float32", quantized)


def test_arrays_named_after_the_outputs(tmp_path: Path) -> None:
    y, z = floats(2, 3), np.arange(4)
    path = written(tmp_path, z=z, y=y, x=floats(1), note=np.array("of a run"))
    (arrays,) = Expected.read(path, [Y, Z]).sets.values()
    assert list(arrays) == ["y", "z"]
    np.testing.assert_array_equal(arrays["y"], y)


def test_arrays_that_go_by_position(tmp_path: Path) -> None:
    path = written(tmp_path, in_0=floats(9), out_0=floats(2, 3), out_1=np.arange(4), other_0=floats(1), input_0=floats(2))
    assert list(Expected.read(path, [Y, Z]).sets) == ["out"]
    path = written(tmp_path, in_0=floats(2, 3), fast_0=floats(2, 3), slow_0=floats(2, 3))
    assert list(Expected.read(path, [Y]).sets) == ["fast", "slow"]


def test_sets_of_other_types_are_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, a_0=np.arange(6), b_0=floats(2, 3))
    assert list(Expected.read(path, [Y]).sets) == ["b"]


def test_a_file_of_the_only_output(tmp_path: Path) -> None:
    y = floats(2, 3)
    np.save(tmp_path / "y.npy", y)
    for path in (tmp_path / "y.npy", written(tmp_path, anything=y), written(tmp_path, anything=y, x=floats(7))):
        (arrays,) = Expected.read(path, [Y], ["x"]).sets.values()
        np.testing.assert_array_equal(arrays["y"], y)
    with pytest.raises(click.UsageError, match="one array, the network 2 outputs"):
        Expected.read(tmp_path / "y.npy", [Y, Z])


@pytest.mark.parametrize(
    ("arrays", "found"),
    [
        ({"y": np.zeros(1, np.float32)}, "has no array for output 'z'; it has 'y'"),
        ({"Y": np.zeros(1), "Z": np.zeros(1)}, "has no array for outputs 'y', 'z'; it has 'Y', 'Z'"),
        ({"out_0": np.zeros(1)}, "has no array for outputs 'y', 'z'"),
        ({"out_0": np.zeros(1), "out_2": np.zeros(1)}, "has no array for outputs 'y', 'z'"),
        ({"in_0": np.zeros(1), "in_1": np.zeros(1)}, "has no array for outputs 'y', 'z'"),
        ({}, "it has none"),
        ({"y": np.array(["a"]), "z": np.arange(4)}, "has no array for output 'y'"),
        ({"y": np.zeros(1, int), "z": np.arange(4)}, "has int64 for output 'y', which is float32: it may have that or floats"),
        ({"y": np.zeros(1), "z": np.zeros(4)}, "has float64 for output 'z', which is int64: it may have that$"),
        ({"y": np.zeros(1), "z": np.zeros(4, np.int32)}, "has int32 for output 'z', which is int64"),
    ],
)
def test_what_is_not_of_the_network(tmp_path: Path, arrays: dict[str, Any], found: str) -> None:
    with pytest.raises(click.UsageError, match=found):
        Expected.read(written(tmp_path, **arrays), [Y, Z])


def test_the_nearest_set_counts(tmp_path: Path) -> None:
    y = floats(2, 3)
    path = written(tmp_path, far_0=y + 1, near_0=y + np.float32(1e-6), other_0=floats(5))
    compared = Expected.read(path, [Y]).compare([Y], {"y": y}, Network(), Tolerance())
    assert (compared.nearest, compared.beyond) == ("near", 0)
    assert compared.sentences == [f"all outputs are as in {path}, within the tolerance; 'near' is the nearest of its sets"]


def test_other_shapes(tmp_path: Path) -> None:
    expected = Expected.read(written(tmp_path, y=floats(3, 2)), [Y])
    compared = expected.compare([Y], {"y": floats(2, 3)}, Network(), Tolerance())
    failure = f"output 'y' has the shape [2, 3], but {expected.path} has [3, 2] for it"
    assert (compared.is_within, compared.failure, compared.sentences) == (False, failure, [failure])


def test_the_worst_element_is_named() -> None:
    wanted = floats(2, 3)
    found = wanted.copy()
    found[1, 0] += 0.5
    found[0, 2] -= 0.25
    one = verdict(wanted, found)
    assert (one.beyond, one.worst) == (2, (1, 0))
    assert one.found == found[1, 0]
    assert f"element [1, 0] is {found[1, 0]:.6g}, expected {wanted[1, 0]:.6g}, an error of 0.5" in one.sentence
    assert "2 of 6 elements are too far" in one.sentence


@pytest.mark.parametrize("seed", range(20))
def test_element_tolerances_are_those_of_numpy(seed: int) -> None:
    random = np.random.default_rng(seed)
    wanted = random.standard_normal((7, 5)) * 10.0 ** random.integers(-3, 3, (7, 5))
    found = wanted + random.standard_normal((7, 5)) * 0.01
    wanted[0, :3], found[0, :3] = [np.nan, np.inf, -np.inf], [np.nan, np.inf, np.inf]
    wanted[1, 0], found[1, 1] = np.nan, np.inf
    spec = TensorSpec("y", (7, 5), DType.FLOAT64)
    for atol, rtol in ((0.01, 0.0), (0.0, 0.02), (0.005, 0.01), (0.0, 0.0), (1.0, 1.0)):
        close = np.isclose(found, wanted, rtol=rtol, atol=atol, equal_nan=True)
        one = verdict(wanted, found, spec, absolute=atol, relative=rtol)
        assert one.beyond == np.count_nonzero(~close)
        assert not close[one.worst]


@pytest.mark.parametrize(("share", "beyond"), [(0.1, 0), (0.099, 1), (0.0, 1)])
def test_a_share_is_of_the_largest_magnitude(share: float, beyond: int) -> None:
    spec = TensorSpec("y", (3,), DType.FLOAT64)
    assert verdict([-8.0, 1.0, 0.0], [-8.0, 1.0, 0.8], spec, share=share).beyond == beyond


def test_integers_have_to_be_equal_however_large() -> None:
    large = np.array([2**62, 2**62 + 1, 0, 5])
    assert verdict(large, large, Z).beyond == 0
    one = verdict(large, large + np.array([0, 1, 0, 0]), Z)
    assert (one.beyond, one.worst) == (1, (1,))
    assert "it has to be equal" in one.sentence


def test_quantized_outputs_are_compared_as_real_numbers() -> None:
    meant = Quantization.per_tensor(0.5, 3)
    spec = TensorSpec("y", (3,), DType.UINT8, meant)
    stored = np.array([3, 5, 203], np.uint8)
    assert verdict(stored, stored + np.uint8(1), spec, quantized=True).beyond == 0, "a step is allowed"
    assert verdict(stored, stored + np.uint8(5), spec, quantized=True).beyond == 3
    reals = np.array([0.0, 1.0, 100.0])
    assert verdict(reals, stored, spec, quantized=True, share=0.0).beyond == 0
    assert verdict(stored, stored + np.uint8(1), spec, quantized=True, share=0.0).beyond == 3


def test_bits_of_bfloat16_and_floats_for_them() -> None:
    spec = TensorSpec("y", (2,), DType.BFLOAT16)
    bits = (np.float32([1, -2]).view(np.uint32) >> 16).astype(np.uint16)
    assert verdict(bits, bits, spec).beyond == 0
    assert verdict(np.float32([1, -2]), bits, spec).beyond == 0
    assert verdict(np.float32([1, -3]), bits, spec).worst == (1,)


@pytest.mark.parametrize("shape", [(), (0, 3)])
def test_odd_shapes(shape: tuple[int, ...]) -> None:
    spec = TensorSpec("y", shape, DType.FLOAT32)
    assert verdict(np.ones(shape, np.float32), np.ones(shape, np.float32), spec).beyond == 0
    other = verdict(np.ones(shape, np.float32), np.zeros(shape, np.float32), spec)
    assert other.beyond == int(np.prod(shape))
    assert not shape or not other.beyond
    if not shape:
        assert "the number is 0, expected 1" in other.sentence


def test_one_of_two_outputs_differs() -> None:
    same = verdict([[1.0]], [[1.0]])
    other = verdict([[1.0]], [[2.0]])
    compared = Comparison(Path("golden.npz"), "", [same, other])
    assert compared.sentences[-1] == "1 of 2 outputs is beyond the tolerance around golden.npz"
    assert json.loads(json.dumps(compared.as_dict()))["outputs"][1]["worst"] == [0, 0]


def golden_of(adder: Path, folder: Path, names: Mapping[str, str], error: float = 0.0) -> Path:
    a, b = floats(2, 3), floats(2, 3)
    arrays = {"a": a, "b": b, "sum": a + b, "negative": -(a + b) + np.float32(error)}
    return written(folder, **{names.get(name, name): array for name, array in arrays.items()})


@pytest.mark.parametrize("names", [{}, {"a": "in_0", "b": "in_1", "sum": "ort_0", "negative": "ort_1"}])
def test_a_file_of_inputs_and_outputs(dovetail: Invoke, adder: Path, tmp_path: Path, names: dict[str, str]) -> None:
    golden = golden_of(adder, tmp_path, names)
    result = dovetail("run", adder, "-b", "CpuRef", "-i", golden, "--expect", golden)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1] == f"all outputs are as in {golden}, within the tolerance"
    golden = golden_of(adder, tmp_path, names, 1e-2)
    result = dovetail("run", adder, "-b", "CpuRef", "-i", golden, "--expect", golden)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[-2].startswith("output 'negative' differs: element [")
    assert lines[-1] == f"1 of 2 outputs is beyond the tolerance around {golden}"
    assert dovetail("run", adder, "-b", "CpuRef", "-i", golden, "--expect", golden, "--atol", 0.011).exit_code == 0
    assert dovetail("run", adder, "-b", "CpuRef", "-i", golden, "--expect", golden, "--tolerance", 0.9).exit_code == 0


def test_json_tells_of_what_is_expected(dovetail: Invoke, adder: Path, tmp_path: Path) -> None:
    golden = golden_of(adder, tmp_path, {}, 1.0)
    result = dovetail("run", adder, "-b", "CpuRef", "-i", golden, "--expect", golden, "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert [one["name"] for one in document["outputs"]] == ["sum", "negative"]
    assert [one["is_within"] for one in document["expected"]["outputs"]] == [True, False]
    assert document["expected"]["outputs"][1]["max_abs"] == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--atol", "1"], "--atol says how far outputs may be from expected ones: name these by --expect FILE"),
        (["--expect", "GOLDEN", "--tolerance", "1", "--rtol", "1"], "--tolerance and --rtol exclude each other"),
        (["--expect", "absent.npz"], "absent.npz"),
    ],
)
def test_wrong_use(dovetail: Invoke, adder: Path, tmp_path: Path, options: list[str], found: str) -> None:
    golden = golden_of(adder, tmp_path, {})
    words = [str(golden) if option == "GOLDEN" else option for option in options]
    result = dovetail("run", adder, "-b", "CpuRef", "-i", golden, *words)
    assert result.exit_code == 2
    assert found in result.stderr
