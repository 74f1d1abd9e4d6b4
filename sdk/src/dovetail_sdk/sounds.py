"""Turn a .wav file into an input tensor, and say how."""

from __future__ import annotations

import wave
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .pictures import UnfitKind, UnreadableFile, to_bfloat16

if TYPE_CHECKING:
    from dovetail import DType, Quantization
    from dovetail.graph.tensor import Dimension

SUFFIXES = frozenset({".wav"})

_STORED = {1: "u1", 2: "<i2", 4: "<i4"}
"""How samples lie in a file, by their bytes; those of one byte have their zero at 128."""


def time_axis(name: str, shape: tuple[Dimension, ...]) -> int:
    """Find the axis of an input that samples lie along: all others are 1, or open.

    Raises:
        UnfitKind: The shape is not one of a sound.
    """
    long = [axis for axis, size in enumerate(shape) if isinstance(size, int) and size != 1]
    open_axes = [axis for axis, size in enumerate(shape) if isinstance(size, str)]
    if len(long) > 1 or not (long or open_axes):
        text = f"input {name!r} [{', '.join(map(str, shape))}]"
        raise UnfitKind(f"{text} takes no sound, which has one axis; give an array: --input {name}=FILE.npy")
    return long[0] if long else open_axes[-1]


def sound_tensor(
    path: Path,
    name: str,
    shape: tuple[Dimension, ...],
    dtype: DType,
    quantization: Quantization | None,
    rate: int | None = None,
) -> tuple[npt.NDArray[Any], str]:
    """Read a sound into a tensor; return it and a sentence that tells what was done to it.

    Samples are real numbers from -1 to 1, of which channels are the mean; what is behind the end of
    the input is cut off, and what is missing there is silence.

    Args:
        path: The file: PCM of 8, 16 or 32 bits.
        name: The input, with its shape, type and quantization.
        shape: See `name`.
        dtype: See `name`.
        quantization: See `name`.
        rate: How many samples a second the network takes; None for whatever the file has.

    Raises:
        UnreadableFile: The file is no such sound, or has another rate.
        UnfitKind: No sound goes into the input.
    """
    axis = time_axis(name, shape)
    size = shape[axis]
    samples, steps = _read(path, rate, size if isinstance(size, int) else None)
    if isinstance(size, int) and len(samples) < size:
        steps.append(f"padded with silence to {size}")
        samples = np.pad(samples, (0, size - len(samples)))
    tensor, conversion = _converted(samples, dtype, quantization)
    lengths = [1] * len(shape)
    lengths[axis] = len(samples)
    return tensor.reshape(lengths), f"{', '.join([*steps, conversion])} [{', '.join(map(str, lengths))}]"


def _read(path: Path, rate: int | None, most: int | None) -> tuple[npt.NDArray[np.float32], list[str]]:
    """Read at most so many samples, as real numbers."""
    try:
        with wave.open(str(path), "rb") as file:
            channels, width, found, count = file.getnchannels(), file.getsampwidth(), file.getframerate(), file.getnframes()
            if width not in _STORED:
                raise UnreadableFile(path, f"{path} has samples of {8 * width} bits; 8, 16 and 32 can be read")
            if rate is not None and found != rate:
                raise UnreadableFile(
                    path,
                    f"{path} has {found} samples a second, the network takes {rate}; bring it to that rate first, or say "
                    "--rate",
                )
            data = file.readframes(count if most is None else min(count, most))
    except (wave.Error, EOFError) as error:
        raise UnreadableFile(path, f"{path} cannot be read as a sound: {str(error) or 'it is cut off'}") from None
    stored = np.frombuffer(data[: len(data) // (width * channels) * width * channels], _STORED[width])
    values = (stored.astype(np.float64) - (128 if width == 1 else 0)) / 2.0 ** (8 * width - 1)
    samples = values.reshape(-1, channels).mean(axis=1).astype(np.float32)
    if not len(samples):
        raise UnreadableFile(path, f"{path} holds no samples")
    steps = [f"{count} samples of {8 * width} bits at {found} Hz"]
    if channels > 1:
        steps.append(f"mean of {channels} channels")
    if most is not None and count > most:
        steps.append(f"cut to {most}")
    return samples, steps


def _converted(
    samples: npt.NDArray[np.float32], dtype: DType, quantization: Quantization | None
) -> tuple[npt.NDArray[Any], str]:
    if dtype.label == "bfloat16":
        return to_bfloat16(samples), dtype.label
    if dtype.is_float:
        return samples.astype(dtype.numpy), dtype.label
    if not dtype.is_integer:
        raise UnfitKind(f"a sound does not go into an input of type {dtype}")
    limits = np.iinfo(dtype.numpy)
    if quantization is not None:
        scale, zero = quantization.scale[0], quantization.zero_point[0]
        what = f"quantized to {dtype} (scale {scale:g}, zero point {zero})"
    else:  # integers of as many bits as a file may have
        scale, zero = 2.0 ** (1 - dtype.bits), 0 if limits.min else 1 << (dtype.bits - 1)
        what = f"samples of {dtype}"
    values = np.rint(samples.astype(np.float64) / scale + zero)
    return _clipped(values, dtype), what


def _clipped(values: npt.NDArray[np.float64], dtype: DType) -> npt.NDArray[Any]:
    """Cut off what integers have no room for; 2^63 is the least float that int64 has none for."""
    limits = np.iinfo(dtype.numpy)
    highest = float(limits.max)
    if highest > limits.max:
        highest = float(np.nextafter(highest, 0))
    return np.clip(values, float(limits.min), highest).astype(dtype.numpy)
