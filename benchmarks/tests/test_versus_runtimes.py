from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from versus.peers import PEERS
from versus.runtimes.litert import fitted, natural, sizes_like

Invoke = Callable[..., Result]


@pytest.mark.parametrize("name", ["onnxruntime", "openvino"])
def test_a_peer_that_is_installed(models: Invoke, classifier: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec(PEERS[name].module) is None:
        pytest.skip(f"{name} is not installed: pip install {PEERS[name].distribution}")
    monkeypatch.setenv("CC", "/no/such/cc")
    quick = ("--rounds", 1, "--block", 0.01, "--repeats", 0, "--threads", 1)
    result = models(classifier, "--versus", name, "--shape", "N=2", "-b", "CpuRef", "--json", *quick)
    assert result.exit_code == 0, result.output
    (comparison,) = json.loads(result.stdout)["comparisons"]
    assert [entry["state"] for entry in comparison["entries"]] == ["measured", "measured"]
    assert comparison["best_peer"] == name


def detail(shape: list[int], dtype: type, quantization: tuple[float, int] = (0.0, 0)) -> dict[str, object]:
    return {"name": "serving_default_args_0", "shape": np.array(shape), "dtype": dtype, "quantization": quantization}


def test_inputs_of_a_tflite_file() -> None:
    picture = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    assert np.array_equal(fitted(picture, detail([1, 3, 4, 2], np.float32), "x"), picture.transpose(0, 2, 3, 1))
    assert fitted(picture, detail([1, 3, 4, 2], np.float32), "x").flags.c_contiguous
    assert np.array_equal(fitted(picture, detail([1, 2, 3, 4], np.float32), "x"), picture)
    tokens = np.array([[1, 2]])
    assert fitted(tokens, detail([1, 2], np.int32), "x").dtype == np.int32
    values = np.array([-100, 0, 0.5, 100], np.float32)
    assert fitted(values, detail([4], np.int8, (0.5, 3)), "x").tolist() == [-128, 3, 4, 127]
    with pytest.raises(
        ValueError, match=r"input 'x' is float32\[4\], 'serving_default_args_0' of the .tflite file float32\[5\]"
    ):
        fitted(values, detail([5], np.float32), "x")


def test_open_sizes_of_a_tflite_file() -> None:
    assert sizes_like([-1, 3, 8, 8], [2, 3, 8, 8]) == [2, 3, 8, 8]
    assert sizes_like([-1, 8, 9, 3], [2, 3, 8, 9]) == [2, 8, 9, 3]
    assert sizes_like([-1, -1], [2, 7]) == [2, 7]


def test_names_are_ordered_by_their_numbers() -> None:
    assert sorted(["args_10", "args_9", "args_1"], key=natural) == ["args_1", "args_9", "args_10"]
