from __future__ import annotations

import wave
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from PIL import Image

from dovetail import DType, TensorInfo
from dovetail.graph.meaning import Meaning
from dovetail_sdk.feeding import Feeds, InputSpec, feeds_for, input_specs, random_array
from dovetail_sdk.pictures import PictureSettings

A = InputSpec("a", (2, 3), DType.FLOAT32)
B = InputSpec("b", (2,), DType.INT64)
ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3)


def feed(specs: list[InputSpec], *texts: object) -> Feeds:
    return feeds_for(specs, [str(text) for text in texts], PictureSettings())


def refusal(specs: list[InputSpec], *texts: object) -> str:
    with pytest.raises(click.UsageError) as caught:
        feed(specs, *texts)
    return caught.value.message


@pytest.fixture
def npy(tmp_path: Path) -> Path:
    path = tmp_path / "a.npy"
    np.save(path, ARRAY)
    return path


def test_npy_with_and_without_a_name(npy: Path) -> None:
    for text in (npy, f"a={npy}"):
        feeds = feed([A], text)
        np.testing.assert_array_equal(feeds.arrays["a"], ARRAY)
        assert feeds.notes["a"] == f"{npy}: float32[2, 3]"


def test_npz_feeds_by_the_names_in_it(tmp_path: Path) -> None:
    path = tmp_path / "both.npz"
    np.savez(path, a=ARRAY, b=np.array([1, 2]))
    feeds = feed([A, B], path)
    np.testing.assert_array_equal(feeds.arrays["a"], ARRAY)
    np.testing.assert_array_equal(feeds.arrays["b"], [1, 2])
    np.testing.assert_array_equal(feed([A, B], f"a={path}", "random").arrays["a"], ARRAY)


def test_npz_of_one_array_feeds_the_only_input(tmp_path: Path) -> None:
    path = tmp_path / "one.npz"
    np.savez(path, something=ARRAY)
    np.testing.assert_array_equal(feed([A], path).arrays["a"], ARRAY)
    assert "'something'" in refusal([A, B], path)


def test_npz_whose_arrays_are_no_inputs(tmp_path: Path) -> None:
    path = tmp_path / "two.npz"
    np.savez(path, x=ARRAY, y=ARRAY)
    assert "'x', 'y'" in refusal([A], path)
    assert "no array 'a'; it has 'x', 'y'" in refusal([A], f"a={path}")


def test_random_fills_what_is_not_given(npy: Path) -> None:
    feeds = feed([A, B], "random", f"a={npy}")
    np.testing.assert_array_equal(feeds.arrays["a"], ARRAY)
    assert feeds.arrays["b"].shape == (2,)
    assert set(feed([A, B], "b=random", npy).arrays) == {"a", "b"}


@pytest.mark.parametrize("dtype", list(DType))
def test_random_is_the_same_for_the_same_seed(dtype: DType) -> None:
    spec = InputSpec("x", (64, 5), dtype)
    first, _ = random_array(spec, 0)
    assert first.dtype == dtype.numpy
    assert first.shape == (64, 5)
    np.testing.assert_array_equal(first, random_array(spec, 0)[0])
    assert not np.array_equal(first, random_array(spec, 1)[0])


def test_random_integers_may_be_indices() -> None:
    array, note = random_array(InputSpec("x", (1000,), DType.INT64), 0)
    assert set(array) == {0, 1}
    assert "0 or 1" in note


def test_open_size_of_a_random_input_is_one() -> None:
    feeds = feed([InputSpec("x", ("N", 3), DType.FLOAT32), InputSpec("y", ("M", "N"), DType.FLOAT32)], "random")
    assert {name: array.shape for name, array in feeds.arrays.items()} == {"x": (1, 3), "y": (1, 1)}
    assert feeds.assumed == {"N": 1, "M": 1}
    assert "random float32[1, 3]" in feeds.notes["x"]


def test_open_size_of_a_random_input_is_that_of_an_array(npy: Path) -> None:
    """Also of one that is given later."""
    feeds = feed([InputSpec("x", ("N", "M"), DType.FLOAT32), InputSpec("a", ("N", 3), DType.FLOAT32)], "x=random", npy)
    assert feeds.arrays["x"].shape == (2, 1)
    assert feeds.assumed == {"M": 1}
    assert list(feeds.notes) == ["x", "a"]


def test_name_may_hold_an_equals_sign(npy: Path) -> None:
    specs = [InputSpec("a", (2, 3), DType.FLOAT32), InputSpec("a=b", (2, 3), DType.FLOAT32)]
    feeds = feed(specs, f"a=b={npy}", "a=random")
    np.testing.assert_array_equal(feeds.arrays["a=b"], ARRAY)


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        ([], "2 inputs are not given: 'a' float32[2, 3], 'b' int64[2]; add --input a=FILE"),
        (["a=random"], "1 input is not given: 'b' int64[2]"),
        (["absent.npy"], "'absent.npy' does not exist"),
        (["a=absent.npy"], "'absent.npy' does not exist"),
        (["-"], "an input is not read from standard input: write it to a file"),
        (["a=-"], "an input is not read from standard input: write it to a file"),
        (["a="], r"'a=' names no file; write a=FILE, or a=random"),
        (["c=random"], "there is no input 'c'; the inputs are 'a', 'b'"),
        (["a=random", "a=random"], "input 'a' is given twice"),
        (["a=/dev/null"], "'/dev/null' is a device or a pipe; inputs are read from files"),
        (["a=/"], "'/' is a folder"),
    ],
)
def test_wrong_use(texts: list[str], found: str) -> None:
    assert found in refusal([A, B], *texts)


def test_file_for_one_of_several_inputs_needs_a_name(npy: Path) -> None:
    assert f"Write --input NAME={npy}; still open: 'a', 'b'" in refusal([A, B], npy)
    assert "still open: none" in refusal([A], npy, npy)


@pytest.mark.parametrize(
    ("array", "dtype", "converted"),
    [
        (np.array([1.5, 2.5]), DType.FLOAT32, True),
        (np.array([1.5, 2.5], np.float32), DType.FLOAT16, True),
        (np.array([1, 2], np.int64), DType.INT32, True),
        (np.array([1, 2], np.int64), DType.FLOAT32, True),
        (np.array([1.5, 2.5]), DType.INT64, False),
        (np.array([-1, 2]), DType.UINT8, False),
    ],
)
def test_conversion_between_relatives_only(tmp_path: Path, array: Any, dtype: DType, converted: bool) -> None:
    """What is not converted here is refused by the runtime, which tells how to convert it."""
    path = tmp_path / "x.npy"
    np.save(path, array)
    feeds = feed([InputSpec("x", (2,), dtype)], path)
    assert feeds.arrays["x"].dtype == (dtype.numpy if converted else array.dtype)
    assert (f"converted to {dtype}" in feeds.notes["x"]) is converted


def test_conversion_that_would_change_integers_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.array([1, 2**40]))
    assert "do not fit into int32" in refusal([InputSpec("x", (2,), DType.INT32)], path)


@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04", b"\x93NUMPY\x01\x00"])
def test_damaged_array_file(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert str(path) in refusal([A], path)


def test_pickled_objects_are_never_loaded(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.array([{"a": 1}], object), allow_pickle=True)
    assert "cannot be read as arrays: it is no such file, or holds Python objects" in refusal([A], path)


def test_array_file_under_the_other_suffix(tmp_path: Path, npy: Path) -> None:
    wrong = npy.rename(tmp_path / "one.npz")
    assert "its suffix must be .npy" in refusal([A], wrong)
    np.savez(wrong, a=ARRAY)
    several = wrong.rename(tmp_path / "several.npy")
    assert "its suffix must be .npz" in refusal([A], several)


def test_unknown_suffix(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.touch()
    assert "neither .npy, .npz, .wav nor a picture" in refusal([A], path)


def test_picture(tmp_path: Path) -> None:
    path = tmp_path / "p.PNG"
    Image.new("RGB", (5, 5), (255, 0, 0)).save(path, "png")
    feeds = feed([InputSpec("x", (1, 3, 5, 5), DType.FLOAT32)], path)
    assert feeds.arrays["x"][0, :, 2, 2].tolist() == [1, 0, 0]
    assert "NCHW" in feeds.notes["x"]


def test_given_sizes_are_put_into_the_specs() -> None:
    class Spec:
        def __init__(self, name: str, info: TensorInfo) -> None:
            self.name, self.shape, self.dtype, self.quantization = name, info.shape, info.dtype, info.quantization

    specs = [Spec("a", TensorInfo.of(("N", 3))), Spec("b", TensorInfo.of(("N", "M")))]
    assert [spec.shape for spec in input_specs(specs, {"N": 2, "b": (2, 7)})] == [(2, 3), (2, 7)]
    assert [spec.shape for spec in input_specs(specs, {"b": (2, 7)})] == [(2, 3), (2, 7)]


def test_the_rate_of_a_sound_is_what_the_model_says(tmp_path: Path) -> None:
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", "not compressed"))
        file.writeframes(bytes(4))
    spec = InputSpec("x", (1, 2), DType.FLOAT32, meaning=Meaning(rate=16000))
    text = str(tmp_path / "a.wav")
    with pytest.raises(click.UsageError, match="8000 samples a second, the network takes 16000"):
        feeds_for([spec], [text], PictureSettings())
    assert feeds_for([spec], [text], PictureSettings(), rate=8000).arrays["x"].shape == (1, 2)
    assert feeds_for([InputSpec("x", (1, 2), DType.FLOAT32)], [text], PictureSettings()).arrays["x"].shape == (1, 2)


def test_npz_that_holds_outputs_too(tmp_path: Path) -> None:
    path = tmp_path / "golden.npz"
    np.savez(path, a=ARRAY, b=np.array([1, 2]), y=ARRAY, meta=np.array("text"))
    feeds = feed([A, B], path)
    assert set(feeds.arrays) == {"a", "b"}
    np.savez(path, in_0=ARRAY, in_1=np.array([1, 2]), ort_0=ARRAY)
    feeds = feed([A, B], path)
    np.testing.assert_array_equal(feeds.arrays["a"], ARRAY)
    assert feeds.notes["b"] == f"{path}[in_1]: int64[2]"


def test_npz_with_another_number_of_positions(tmp_path: Path) -> None:
    path = tmp_path / "golden.npz"
    np.savez(path, in_0=ARRAY, in_1=ARRAY, in_2=ARRAY)
    assert "'in_0', 'in_1', 'in_2'" in refusal([A, B], path)
    np.savez(path, in_0=ARRAY, ort_0=ARRAY)
    assert "'in_0', 'ort_0'" in refusal([A, B], path)


def test_npz_gives_the_inputs_that_are_left(tmp_path: Path, npy: Path) -> None:
    path = tmp_path / "golden.npz"
    np.savez(path, in_0=ARRAY + 1, in_1=np.array([1, 2]), ort_0=ARRAY)
    feeds = feed([A, B], f"a={npy}", path)
    np.testing.assert_array_equal(feeds.arrays["a"], ARRAY)
    np.testing.assert_array_equal(feeds.arrays["b"], [1, 2])
