"""Turn a picture file into an input tensor, and say how."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from PIL.Image import Image

    from dovetail import DType, Quantization
    from dovetail.graph.meaning import Meaning
    from dovetail.graph.tensor import Dimension

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"})

_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


_SIXTEEN_BITS = frozenset({"PNG", "PPM"})
"""Formats whose pixels Pillow holds in 32 bits (mode "I") though they have 16."""

_DECODED_PIXEL, _REAL_PIXEL = 2 * 4, 4 * 4
"""Bytes of a pixel as Pillow holds it, before and after conversion, and as real numbers."""


class UnreadableFile(click.UsageError):
    """A file holds nothing that goes into the input; another one in its place may.

    Args:
        path: The file.
        message: What is wrong with it.
    """

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path = path


class UnfitKind(click.UsageError):
    """An input takes no pictures, or no sounds, whatever is on them; it may take arrays."""


@dataclass(frozen=True, slots=True)
class PictureSettings:
    """How pixels become numbers: value = (pixel - mean) * scale, pixels being 0 to 255.

    Where neither mean nor scale is given, the model may say; else the 256 values of a pixel are
    those of an integer of 8 bits, and of a real number 0 to 1.

    Attributes:
        mean: One number, or one per channel; None for 0.
        scale: The same; None for 1/255 where the values are real numbers, and for 1 where they are
            the integers themselves.
        layout: "nchw", "nhwc", or "auto" to go by where the number of channels stands.
        channels: "rgb" or "bgr".
    """

    mean: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None
    layout: str = "auto"
    channels: str = "rgb"


@dataclass(frozen=True, slots=True)
class PicturePlace:
    """Where a picture goes in a tensor: the layout and sizes, None where the picture decides."""

    layout: str
    channels: int
    height: int | None
    width: int | None
    rank: int


def place_for(name: str, shape: tuple[Dimension, ...], layout: str) -> PicturePlace:
    """Find out how a picture lies in an input of this shape.

    Raises:
        UnfitKind: The shape is not one of a picture, or both layouts fit it and none was
            chosen.
    """
    text = f"input {name!r} [{', '.join(map(str, shape))}]"
    rank = len(shape)
    if rank not in (2, 3, 4) or (rank == 4 and isinstance(shape[0], int) and shape[0] != 1):
        raise UnfitKind(f"{text} takes no picture; give an array: --input {name}=FILE.npy")
    place = _place_in(name, text, shape, layout)
    is_batch = rank == 2 and isinstance(shape[0], str) and isinstance(shape[1], int)
    if 1 in (place.height, place.width) or is_batch:
        length = math.prod(size for size in shape if isinstance(size, int))
        raise UnfitKind(f"{text} is a row of numbers, no picture; {_row_advice(name, length)}")
    return place


def _row_advice(name: str, length: int) -> str:
    """Say how pixels go into an input that has them one behind the other."""
    for channels, colours in ((1, "grey pixels"), (3, "RGB pixels")):
        side = math.isqrt(length // channels)
        if side > 1 and side * side * channels == length:
            return f"if it is made of {side}x{side} {colours}, save them as an array of this shape: --input {name}=FILE.npy"
    return f"give an array: --input {name}=FILE.npy"


def _place_in(name: str, text: str, shape: tuple[Dimension, ...], layout: str) -> PicturePlace:
    rank = len(shape)
    if rank == 2:
        return PicturePlace("hw", 1, _size(shape[0]), _size(shape[1]), rank)
    first, last = shape[-3], shape[-1]
    fits = {"nchw": first in _MODES, "nhwc": last in _MODES}
    if layout == "auto":
        if not any(fits.values()):
            raise UnfitKind(f"{text} has 1, 3 or 4 channels in neither layout; give an array: --input {name}=FILE.npy")
        if all(fits.values()):
            raise UnfitKind(f"{text} may be read as NCHW and as NHWC; choose: --layout nchw or --layout nhwc")
        layout = "nchw" if fits["nchw"] else "nhwc"
    elif not fits[layout]:
        raise UnfitKind(f"{text} does not have 1, 3 or 4 channels where {layout.upper()} has them")
    if layout == "nchw":
        return PicturePlace(layout, int(first), _size(shape[-2]), _size(shape[-1]), rank)
    return PicturePlace(layout, int(last), _size(shape[-3]), _size(shape[-2]), rank)


def picture_tensor(
    path: Path,
    name: str,
    shape: tuple[Dimension, ...],
    dtype: DType,
    quantization: Quantization | None,
    settings: PictureSettings,
    meaning: Meaning | None = None,
) -> tuple[npt.NDArray[Any], str]:
    """Read a picture into a tensor; return it and a sentence that tells what was done to it.

    Raises:
        UnreadableFile: The file is no picture.
        UnfitKind: No picture goes into the input.
    """
    place = place_for(name, shape, settings.layout)
    image, steps = _read(path, place)
    pixels = np.asarray(image, np.float32).reshape(image.height, image.width, place.channels)
    if place.channels > 1 and settings.channels == "bgr":
        pixels = pixels[..., [2, 1, 0, *range(3, place.channels)]]
    if place.channels > 1:
        steps.append(("BGR" if settings.channels == "bgr" else "RGB") + ("A" if place.channels == 4 else ""))
    mean, scale, quantization = _scaling(settings, dtype, quantization, meaning)
    values = (pixels - _per_channel("--mean", mean, place.channels)) * _per_channel("--scale", scale, place.channels)
    steps.append(f"(pixel - {_numbers(mean)}) * {_numbers(scale)}")
    tensor, conversion = _converted(values, dtype, quantization)
    steps.append(conversion)
    if place.layout == "nchw":
        tensor = tensor.transpose(2, 0, 1)
    elif place.layout == "hw":
        tensor = tensor[..., 0]
    if place.rank == 4:
        tensor = tensor[np.newaxis]
    layout = place.layout.upper().removeprefix("" if place.rank == 4 else "N")
    return np.ascontiguousarray(tensor), f"{', '.join(steps)}, {layout} [{', '.join(map(str, tensor.shape))}]"


def _scaling(
    settings: PictureSettings, dtype: DType, quantization: Quantization | None, meaning: Meaning | None
) -> tuple[tuple[float, ...], tuple[float, ...], Quantization | None]:
    """Return mean and scale of pixels, and how the result is quantized; None: it is as it is."""
    if settings.mean is None and settings.scale is None:
        if meaning is not None and meaning.mean:
            return meaning.mean, tuple(1 / one for one in meaning.deviation), quantization
        if quantization is not None and dtype.bits == 8:
            return (float(-dtype.limits[0]),), (1.0,), None
    is_real = dtype.is_float or quantization is not None
    scale = settings.scale if settings.scale is not None else ((1 / 255,) if is_real else (1.0,))
    return settings.mean or (0.0,), scale, quantization


def _read(path: Path, place: PicturePlace) -> tuple[Image, list[str]]:
    from PIL import Image, ImageOps, UnidentifiedImageError

    image: Image.Image
    try:
        with Image.open(path) as file:
            ImageOps.exif_transpose(file, in_place=True)
            mode, read = file.mode, of_bytes(file, path)
            image = read if read.mode == _MODES[place.channels] else read.convert(_MODES[place.channels])  # which copies it
            image.load()
    except UnidentifiedImageError:
        raise UnreadableFile(path, f"{path} is not a picture that can be read") from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise UnreadableFile(path, f"{path} cannot be read as a picture: {error}") from None
    steps = [f"{image.width}x{image.height} {mode}"] + (["the upper 8 of 16 bits"] if read is not file else [])
    if mode != image.mode:
        steps.append(f"to {image.mode}")
    wanted = (place.width or image.width, place.height or image.height)
    if wanted != image.size:
        image = image.resize(wanted, Image.Resampling.BILINEAR)
        steps.append(f"resized to {wanted[0]}x{wanted[1]}, bilinear")
    return image, steps


def of_bytes(file: Image, path: Path) -> Image:
    """Return a picture whose pixels have 16 bits with the upper 8, others as they are.

    Pillow does so with three channels of 16 bits; with one it takes all that is above 255 for 255.

    Raises:
        UnreadableFile: The pixels have 32 bits.
    """
    from PIL import Image

    if not (file.mode.startswith("I;16") or file.mode in ("I", "F")):
        return file
    if file.mode == "F" or (file.mode == "I" and file.format not in _SIXTEEN_BITS):
        raise UnreadableFile(path, f"{path} has pixels of 32 bits, whose range it does not tell; give them as .npy")
    return Image.fromarray((np.asarray(file) >> 8).astype(np.uint8))


def decoded_bytes(path: Path, *, is_resized: bool) -> int:
    """Return about what reading a picture takes, by its header; 0 if it cannot be read.

    Args:
        path: The file.
        is_resized: Whether it is brought to a size that the input has, and real numbers are few.
    """
    from PIL import Image

    try:
        if not path.is_file():
            return 0
        with Image.open(path) as file:
            return file.width * file.height * (_DECODED_PIXEL + (0 if is_resized else _REAL_PIXEL))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return 0


def _converted(
    values: npt.NDArray[np.float32], dtype: DType, quantization: Quantization | None
) -> tuple[npt.NDArray[Any], str]:
    from dovetail import DType

    if dtype is DType.BFLOAT16:
        return to_bfloat16(values), dtype.label
    if dtype.is_float:
        return values.astype(dtype.numpy), dtype.label
    if not dtype.is_integer:
        raise UnfitKind(f"a picture does not go into an input of type {dtype}")
    what = dtype.label
    if quantization is not None:
        values = values / np.float32(quantization.scale[0]) + np.float32(quantization.zero_point[0])
        what = f"quantized to {dtype} (scale {quantization.scale[0]:g}, zero point {quantization.zero_point[0]})"
    limits = np.iinfo(dtype.numpy)
    return np.clip(np.rint(values), limits.min, limits.max).astype(dtype.numpy), what


def to_bfloat16(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """Round to bfloat16, ties to even; the result holds the bits."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def _size(dimension: Dimension) -> int | None:
    return dimension if isinstance(dimension, int) else None


def _per_channel(option: str, numbers: tuple[float, ...], channels: int) -> npt.NDArray[np.float32]:
    if len(numbers) not in (1, channels):
        raise UnfitKind(f"{option} has {len(numbers)} numbers for {channels} channels")
    return np.asarray(numbers, np.float32)


def _numbers(numbers: tuple[float, ...]) -> str:
    return f"{numbers[0]:g}" if len(numbers) == 1 else f"[{', '.join(f'{number:g}' for number in numbers)}]"
