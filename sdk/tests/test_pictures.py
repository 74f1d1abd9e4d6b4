from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from PIL import Image

from dovetail import DType, Quantization
from dovetail.graph.meaning import Meaning
from dovetail_sdk.pictures import PictureSettings, picture_tensor, place_for, to_bfloat16

# 2 rows, 3 columns, RGB: every value differs, so that every mistake in the order shows.
PIXELS = np.arange(18, dtype=np.uint8).reshape(2, 3, 3) * 10


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "picture.png"
    Image.fromarray(PIXELS).save(path)
    return path


def tensor_of(path: Path, shape: tuple[Any, ...], dtype: DType = DType.FLOAT32, **settings: Any) -> tuple[Any, str]:
    return picture_tensor(path, "x", shape, dtype, None, PictureSettings(**settings))


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((1, 3, 2, 3), "needs a choice"),
        ((1, 3, 2, 5), ("nchw", 3, 2, 5)),
        (("N", 3, "H", "W"), ("nchw", 3, None, None)),
        ((1, 8, 9, 4), ("nhwc", 4, 8, 9)),
        ((1, 28, 28), ("nchw", 1, 28, 28)),
        ((28, 30, 1), ("nhwc", 1, 28, 30)),
        ((28, "W"), ("hw", 1, 28, None)),
        ((1, 7, 28, 28), "neither layout"),
        ((2, 3, 28, 28), "takes no picture"),
        ((10,), "takes no picture"),
        ((1, 784), r"a row of numbers, no picture; if it is made of 28x28 grey pixels, save .* --input x=FILE\.npy"),
        (("N", 784), "28x28 grey pixels"),
        ((784, 1), "28x28 grey pixels"),
        ((1, 3072), "32x32 RGB pixels"),
        ((1, 1000), r"a row of numbers, no picture; give an array: --input x=FILE\.npy"),
        ((1, 1, 1, 784), "28x28 grey pixels"),
        ((1, 1, "T", 1), "may be read as NCHW and as NHWC"),
        ((1, 1, 40, 1), "may be read as NCHW and as NHWC"),
        ((1, 640, 1, 3), "a row of numbers"),
        (("H", "W"), ("hw", 1, None, None)),
    ],
)
def test_place(shape: tuple[Any, ...], expected: Any) -> None:
    if expected == "needs a choice":
        with pytest.raises(click.UsageError, match="--layout nchw or --layout nhwc"):
            place_for("x", shape, "auto")
        assert place_for("x", shape, "nhwc").height == 3
        return
    if isinstance(expected, str):
        with pytest.raises(click.UsageError, match=expected):
            place_for("x", shape, "auto")
        return
    place = place_for("x", shape, "auto")
    assert (place.layout, place.channels, place.height, place.width) == expected


def test_chosen_layout_must_have_channels() -> None:
    with pytest.raises(click.UsageError, match="where NHWC has them"):
        place_for("x", (1, 3, 28, 28), "nhwc")


def test_nchw(picture: Path) -> None:
    tensor, note = tensor_of(picture, (1, 3, "H", "W"))
    np.testing.assert_allclose(tensor, PIXELS.transpose(2, 0, 1)[np.newaxis] / np.float32(255), rtol=1e-6)
    assert tensor.dtype == np.float32
    assert tensor.flags.c_contiguous
    for part in ("3x2 RGB", "RGB", "(pixel - 0) * 0.00392157", "float32", "NCHW [1, 3, 2, 3]"):
        assert part in note
    assert "resized" not in note


def test_nhwc_bgr_with_mean_and_scale(picture: Path) -> None:
    tensor, note = tensor_of(
        picture, (1, 2, "W", 3), mean=(1.0, 2.0, 3.0), scale=(0.5, 0.25, 2.0), layout="nhwc", channels="bgr"
    )
    expected = (PIXELS[..., ::-1].astype(np.float32) - np.float32([1, 2, 3])) * np.float32([0.5, 0.25, 2])
    np.testing.assert_array_equal(tensor, expected[np.newaxis])
    for part in ("BGR", "(pixel - [1, 2, 3]) * [0.5, 0.25, 2]", "NHWC"):
        assert part in note


def test_integers_take_the_pixels_as_they_are(picture: Path) -> None:
    tensor, note = tensor_of(picture, (1, "H", "W", 3), DType.UINT8)
    np.testing.assert_array_equal(tensor, PIXELS[np.newaxis])
    assert "(pixel - 0) * 1, uint8" in note
    clipped, _ = tensor_of(picture, (1, "H", "W", 3), DType.INT8)
    assert clipped.max() == 127


def test_quantized_input(picture: Path) -> None:
    quantization = Quantization.per_tensor(1 / 255, -128)
    settings = PictureSettings(scale=(1 / 255,))
    tensor, note = picture_tensor(picture, "x", (1, "H", "W", 3), DType.INT8, quantization, settings)
    np.testing.assert_array_equal(tensor, (PIXELS.astype(int) - 128).astype(np.int8)[np.newaxis])
    assert "quantized to int8" in note


@pytest.mark.parametrize(("dtype", "least"), [(DType.INT8, -128), (DType.UINT8, 0)])
def test_eight_bits_hold_a_pixel_whatever_they_stand_for(picture: Path, dtype: DType, least: int) -> None:
    quantization = Quantization.per_tensor(0.01, 3)
    tensor, _ = picture_tensor(picture, "x", (1, "H", "W", 3), dtype, quantization, PictureSettings())
    np.testing.assert_array_equal(tensor.astype(int), PIXELS.astype(int)[np.newaxis] + least)


def test_the_model_says_how_pixels_are_scaled(picture: Path) -> None:
    meaning = Meaning(mean=(100.0, 110.0, 120.0), deviation=(2.0, 4.0, 8.0))
    shape = (1, "H", "W", 3)
    tensor, note = picture_tensor(picture, "x", shape, DType.FLOAT32, None, PictureSettings(), meaning)
    np.testing.assert_allclose(tensor[0], (PIXELS - [100.0, 110.0, 120.0]) / [2.0, 4.0, 8.0], rtol=1e-6)
    assert "(pixel - [100, 110, 120]) * [0.5, 0.25, 0.125]" in note
    told, _ = picture_tensor(picture, "x", shape, DType.FLOAT32, None, PictureSettings(mean=(0.0,)), meaning)
    np.testing.assert_allclose(told[0], PIXELS / 255, rtol=1e-6)


def test_picture_is_resized_and_turned_gray(picture: Path) -> None:
    tensor, note = tensor_of(picture, (1, 1, 8, 6))
    assert tensor.shape == (1, 1, 8, 6)
    assert "to L" in note
    assert "resized to 6x8, bilinear" in note
    rows, _ = tensor_of(picture, (8, 6))
    np.testing.assert_array_equal(rows, tensor[0, 0])


@pytest.mark.parametrize("suffix", ["png", "tiff", "pgm"])
@pytest.mark.parametrize("channels", [1, 3])
def test_picture_of_16_bits_is_that_of_its_upper_8(tmp_path: Path, suffix: str, channels: int) -> None:
    values = np.linspace(0, 65535, 6 * 5).reshape(6, 5).astype(np.uint16)
    path = tmp_path / f"deep.{suffix}"
    if suffix == "pgm":
        path.write_bytes(b"P5 5 6 65535\n" + values.astype(">u2").tobytes())
    else:
        Image.fromarray(values).save(path)
    tensor, note = tensor_of(path, (1, channels, 6, 5), DType.UINT8)
    np.testing.assert_array_equal(tensor, np.broadcast_to(values >> 8, (1, channels, 6, 5)))
    assert "the upper 8 of 16 bits" in note


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_picture_of_32_bits_is_refused(tmp_path: Path, dtype: Any) -> None:
    path = tmp_path / "deep.tiff"
    Image.fromarray(np.full((4, 4), 1, dtype)).save(path)
    with pytest.raises(click.UsageError, match=r"pixels of 32 bits, whose range it does not tell; give them as \.npy"):
        tensor_of(path, (4, 4))


def test_turned_photograph_is_set_upright(tmp_path: Path) -> None:
    path = tmp_path / "turned.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    Image.fromarray(PIXELS).save(path, exif=exif)
    tensor, _ = tensor_of(path, (1, 3, "H", "W"))
    assert tensor.shape == (1, 3, 3, 2)


def test_bool_input_takes_no_picture(picture: Path) -> None:
    with pytest.raises(click.UsageError, match="input of type bool"):
        tensor_of(picture, (1, 3, "H", "W"), DType.BOOL)


def test_number_of_means_must_fit(picture: Path) -> None:
    with pytest.raises(click.UsageError, match="--mean has 2 numbers for 3 channels"):
        tensor_of(picture, (1, 3, "H", "W"), mean=(1.0, 2.0))


@pytest.mark.parametrize("content", [b"", b"no picture", b"\x89PNG\r\n\x1a\n" + b"\0" * 20])
def test_file_that_is_no_picture(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "fake.png"
    path.write_bytes(content)
    with pytest.raises(click.UsageError, match=r"fake\.png"):
        tensor_of(path, (1, 3, 8, 8))


def test_truncated_picture(picture: Path) -> None:
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)).save(picture)
    picture.write_bytes(picture.read_bytes()[:-2000])
    with pytest.raises(click.UsageError, match="cannot be read as a picture"):
        tensor_of(picture, (1, 3, "H", "W"))


def test_bfloat16_rounds_to_nearest_even() -> None:
    values = np.float32([1.0, -2.5, 1 + 2**-8, 1 + 3 * 2**-8, 3.14159265])
    back = (to_bfloat16(values).astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(back, np.float32([1.0, -2.5, 1.0, 1 + 2**-6, 3.140625]))
