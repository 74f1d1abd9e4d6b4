"""Sounds become tensors: every sample is worked out by hand, or in float64 beside it."""

from __future__ import annotations

import struct
import wave
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

from dovetail import DType, Quantization
from dovetail_sdk.sounds import sound_tensor, time_axis


def sound(path: Path, samples: Any, *, rate: int = 16000) -> Path:
    """Write samples [count] or [count, channels]; bytes are unsigned, as in any such file."""
    array = np.asarray(samples)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1 if array.ndim == 1 else array.shape[1])
        file.setsampwidth(array.itemsize)
        file.setframerate(rate)
        file.writeframes(array.tobytes())
    return path


@pytest.fixture
def words(tmp_path: Path) -> Path:
    return sound(tmp_path / "words.wav", np.array([0, 16384, -32768, 32767, 1], "<i2"))


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((1, 576), 1), ((576,), 0), ((1, 16000, 1), 1), (("N", 512), 1), ((1, "T"), 1), (("N", "T"), 1), ((512, "N"), 0)],
)
def test_the_axis_of_time(shape: tuple[Any, ...], expected: int) -> None:
    assert time_axis("x", shape) == expected


@pytest.mark.parametrize("shape", [(1, 49, 10, 1), (), (1, 1), (2, 300)])
def test_what_takes_no_sound(shape: tuple[Any, ...]) -> None:
    with pytest.raises(click.UsageError, match=r"takes no sound.*--input x=FILE.npy"):
        time_axis("x", shape)


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (np.array([0, 64, 128, 255], "u1"), [-1, -0.5, 0, 127 / 128]),
        (np.array([-32768, -1, 0, 32767], "<i2"), [-1, -1 / 32768, 0, 32767 / 32768]),
        (np.array([-(2**31), 2**30, 0, 2**31 - 1], "<i4"), [-1, 0.5, 0, 1]),
    ],
    ids=["8 bits", "16 bits", "32 bits"],
)
def test_samples_are_from_minus_one_to_one(tmp_path: Path, stored: Any, expected: list[float]) -> None:
    tensor, note = sound_tensor(sound(tmp_path / "a.wav", stored), "x", (1, "T"), DType.FLOAT32, None)
    assert (tensor.dtype, tensor.shape) == (np.float32, (1, 4))
    np.testing.assert_array_equal(tensor[0], np.float32(expected))
    assert f"of {8 * stored.itemsize} bits at 16000 Hz" in note


def test_channels_are_averaged(tmp_path: Path) -> None:
    path = sound(tmp_path / "a.wav", np.array([[16384, -16384], [16384, 0], [-32768, -32768]], "<i2"))
    tensor, note = sound_tensor(path, "x", ("T",), DType.FLOAT32, None)
    assert tensor.tolist() == [0, 0.25, -1]
    assert "mean of 2 channels" in note


def test_what_is_too_long_is_cut(words: Path) -> None:
    tensor, note = sound_tensor(words, "x", (1, 2, 1), DType.FLOAT32, None)
    assert tensor.reshape(-1).tolist() == [0, 0.5]
    assert tensor.shape == (1, 2, 1)
    assert "5 samples" in note
    assert "cut to 2" in note


def test_what_is_too_short_is_padded_with_silence(words: Path) -> None:
    tensor, note = sound_tensor(words, "x", (8,), DType.INT8, Quantization.per_tensor(1 / 64, 5))
    assert tensor.tolist() == [5, 37, -59, 69, 5, 5, 5, 5]
    assert "padded with silence to 8" in note
    assert "zero point 5" in note


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (DType.INT16, [0, 16384, -32768, 32767, 1]),
        (DType.UINT8, [128, 192, 0, 255, 128]),
        (DType.INT32, [0, 2**30, -(2**31), 32767 << 16, 1 << 16]),
        (DType.INT64, [0, 2**62, -(2**63), 32767 << 48, 1 << 48]),
    ],
)
def test_plain_integers_take_samples_of_their_width(words: Path, dtype: DType, expected: list[int]) -> None:
    tensor, _ = sound_tensor(words, "x", (5,), dtype, None)
    assert tensor.tolist() == expected
    assert tensor.dtype == dtype.numpy


def test_a_step_beyond_the_range_of_the_integers_is_cut_off(words: Path) -> None:
    tensor, _ = sound_tensor(words, "x", (5,), DType.INT8, Quantization.per_tensor(1 / 256, 0))
    assert tensor.tolist() == [0, 127, -128, 127, 0]


def test_float16(words: Path) -> None:
    tensor, _ = sound_tensor(words, "x", (2,), DType.FLOAT16, None)
    assert tensor.dtype == np.float16
    assert tensor.tolist() == [0, 0.5]


def test_bools_take_no_sound(words: Path) -> None:
    with pytest.raises(click.UsageError, match="does not go into an input of type bool"):
        sound_tensor(words, "x", (5,), DType.BOOL, None)


def test_another_rate_is_refused_and_named(tmp_path: Path) -> None:
    path = sound(tmp_path / "a.wav", np.zeros(4, "<i2"), rate=44100)
    with pytest.raises(click.UsageError, match="44100 samples a second, the network takes 16000"):
        sound_tensor(path, "x", (4,), DType.FLOAT32, None, 16000)
    assert sound_tensor(path, "x", (4,), DType.FLOAT32, None, 44100)[0].shape == (4,)
    assert "at 44100 Hz" in sound_tensor(path, "x", (4,), DType.FLOAT32, None)[1]


def test_other_widths_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(3)
        file.setframerate(8000)
        file.writeframes(bytes(12))
    with pytest.raises(click.UsageError, match="samples of 24 bits"):
        sound_tensor(path, "x", (4,), DType.FLOAT32, None)


def test_what_is_no_sound(tmp_path: Path, words: Path) -> None:
    data = words.read_bytes()
    compressed = bytearray(data)
    struct.pack_into("<H", compressed, 20, 0x11)  # the format: ADPCM
    for broken in (b"", b"RIFF", data[:30], b"no sound at all, but text", bytes(compressed), data[:44]):
        path = tmp_path / "broken.wav"
        path.write_bytes(broken)
        with pytest.raises(click.UsageError, match=r"broken\.wav"):
            sound_tensor(path, "x", (4,), DType.FLOAT32, None)


def test_a_file_that_ends_early_is_what_it_holds(tmp_path: Path, words: Path) -> None:
    path = tmp_path / "cut.wav"
    path.write_bytes(words.read_bytes()[:-3])
    tensor, _ = sound_tensor(path, "x", ("T",), DType.FLOAT32, None)
    assert tensor.tolist() == [0, 0.5, -1]
