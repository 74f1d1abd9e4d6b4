"""Bodies of requests to arrays, and arrays to bodies of answers. No body is trusted."""

from __future__ import annotations

import asyncio
import io
import json
import math
import zipfile
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from fastapi import Request
from fastapi.responses import Response
from numpy.lib import format as npy
from problems import Problem
from starlette.requests import ClientDisconnect

NPY, NPZ, JSON = "application/x-npy", "application/x-npz", "application/json"
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_MOST_PIXELS = 50_000_000
_PICTURES = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""Formats of pictures; Pillow reads others by programs that it starts, such as Ghostscript."""
_LARGEST_HEADER = 10_000  # of a .npy file; what NumPy writes of a number's type has some hundred bytes
_ROUNDED = 2.0**53  # float64 does not hold each integer from here on

Arrays = dict[str, np.ndarray]


async def body_of(request: Request, largest: int, seconds: float) -> bytes:
    """Read the body of a request.

    Raises:
        Problem: It has more than so many bytes; what it states is believed only if it is too much.
            Or it was not there after so many seconds, however it came, or the client left.
    """
    stated = request.headers.get("content-length", "")
    if stated.isdecimal() and int(stated) > largest:
        raise _too_large(largest)
    pieces, total = [], 0
    try:
        async with asyncio.timeout(seconds):
            async for piece in request.stream():
                total += len(piece)
                if total > largest:
                    raise _too_large(largest)
                pieces.append(piece)
    except TimeoutError:
        problem = f"after {seconds:g} s the body was not complete: {total} bytes had come"
        raise Problem(408, "TOO_SLOW", problem, "send it sooner, or have --body-seconds raised") from None
    except ClientDisconnect:  # nobody reads the answer; it is counted, and is no failure of the server
        raise Problem(400, "BODY_INCOMPLETE", f"the connection ended after {total} bytes of the body") from None
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def kind_of(request: Request) -> str:
    """Return the content type without its parameters, in small letters."""
    return str(request.headers.get("content-type", "")).partition(";")[0].strip().lower()


def feeds_of(body: bytes, request: Request, net: Any, largest: int) -> Arrays:
    """Turn a body into an array for each input, by its content type."""
    kind = kind_of(request)
    if kind.startswith("image/"):
        return picture(body, net, _numbers(request, "mean"), _numbers(request, "scale"))
    readers: dict[str, Callable[[], Arrays]] = {
        JSON: lambda: from_json(body, net.inputs),
        NPY: lambda: {_only(net.inputs, NPY).name: from_npy(body)},
        NPZ: lambda: from_npz(body, largest),
    }
    if kind not in readers:
        raise Problem(415, "TYPE_UNKNOWN", f"a body of type {kind!r} is not read", f"send {JSON}, {NPY}, {NPZ} or image/*")
    return readers[kind]()


def from_json(body: bytes, inputs: Sequence[Any]) -> Arrays:
    """Read `{"inputs": {name: nested lists}}`; numbers become the element type of the input."""
    try:
        given = json.loads(body)["inputs"]
        types = {spec.name: spec.dtype.numpy for spec in inputs}
        return {name: _exact(value, types.get(name)) for name, value in given.items()}
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
        raise _unreadable("JSON", error, 'send {"inputs": {"NAME": [[0.5, ...], ...]}}, lists as deep as the shape') from None


def _exact(value: Any, dtype: Any) -> np.ndarray:
    """Make an array of nested lists; an input of integers takes integers alone."""
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise ValueError("it holds something that is no number")
    if dtype is None or array.dtype == dtype:
        return array
    if np.dtype(dtype).kind in "iu" and array.size and array.dtype.kind != "b":
        limits, whole = np.iinfo(dtype), array
        if array.dtype.kind == "f":  # one fraction, or -1 beside 2^63, makes all of them floats, which round large ones
            if not (array == np.rint(array)).all():
                raise ValueError(f"not all of its numbers are of the type {np.dtype(dtype)}")
            if np.abs(array).max() >= _ROUNDED:
                whole = np.vectorize(int, otypes=[object])(np.asarray(value, object))
        if whole.min() < limits.min or whole.max() > limits.max:
            raise ValueError(f"not all of its numbers are of the type {np.dtype(dtype)}")
        return whole.astype(dtype)
    return array.astype(dtype)


def from_npy(body: bytes) -> np.ndarray:
    """Show the bytes of a .npy file as an array, without a copy."""
    try:
        begin = 10 + int.from_bytes(body[8:10], "little") if body[6:7] == b"\1" else 12 + int.from_bytes(body[8:12], "little")
        if begin > _LARGEST_HEADER:
            raise ValueError(f"its header has more than {_LARGEST_HEADER} bytes")
        shape, is_fortran, dtype = _stated(body[:begin])
        count = math.prod(shape)
        if dtype.hasobject or dtype.itemsize * count != len(body) - begin:
            raise ValueError(f"its header states {dtype} {shape}, and {len(body) - begin} bytes follow")
        array = np.frombuffer(body, dtype, count, begin) if count else np.empty(0, dtype)
        return array.reshape(shape, order="F" if is_fortran else "C")
    except Exception as error:  # whatever NumPy's reader of headers raises
        raise _unreadable("a .npy file", error, "send what numpy.save wrote, of numbers") from None


@lru_cache(64)
def _stated(header: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the header of a .npy file; requests repeat it, and NumPy parses it as Python."""
    file = io.BytesIO(header)
    read = npy.read_array_header_1_0 if npy.read_magic(file) == (1, 0) else npy.read_array_header_2_0
    return read(file)


def from_npz(body: bytes, largest: int) -> Arrays:
    """Read the arrays of a .npz file; unpacked, it may not be larger than packed."""
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            entries = archive.infolist()
            if sum(entry.file_size for entry in entries) > largest:
                raise _too_large(largest)
            if any(entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for entry in entries):
                raise ValueError("it is compressed in a way that NumPy does not write")
            return {entry.filename.removesuffix(".npy"): from_npy(archive.read(entry)) for entry in entries}
    except Problem:
        raise
    except Exception as error:  # whatever the decompressors raise
        raise _unreadable("a .npz file", error, "send what numpy.savez wrote, an array for each input") from None


def picture(body: bytes, net: Any, mean: Sequence[float] | None, scale: Sequence[float] | None) -> Arrays:
    """Read a picture into the only input of a network: resized, (pixel - mean) * scale.

    Without scale floats are 0 to 1, and integers are the pixels.
    """
    from PIL import Image, ImageOps

    spec = _only(net.inputs, "a picture")
    layout, channels, height, width = _place(spec)
    usual = [1 / 255] if spec.dtype.is_float else [1.0]
    zero, factor = _by_channel(mean or [0.0], channels), _by_channel(scale or usual, channels)
    _check_holds(spec.dtype, zero, factor)
    try:
        with Image.open(io.BytesIO(body), formats=_PICTURES) as file:
            if file.width * file.height > _MOST_PIXELS:
                raise Problem(413, "TOO_LARGE", f"the picture has {file.width} x {file.height} pixels", "send a smaller one")
            if file.mode[0] in "IF":  # Pillow would take all that is above 255 for 255
                raise ValueError(f"its pixels have more than 8 bits (mode {file.mode})")
            image = ImageOps.exif_transpose(file).convert(_MODES[channels])
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise _unreadable("a picture", error, f"send {', '.join(_PICTURES)}") from None
    image = image.resize((width or image.width, height or image.height), Image.Resampling.BILINEAR)
    pixels = np.asarray(image, np.float32).reshape(image.height, image.width, channels)
    values = (pixels - zero) * factor
    if not spec.dtype.is_float:
        limits = np.iinfo(spec.dtype.numpy)
        values = np.clip(np.rint(values), limits.min, limits.max)
    tensor = values.astype(spec.dtype.numpy)
    tensor = tensor.transpose(2, 0, 1) if layout == "nchw" else tensor
    return {spec.name: np.ascontiguousarray(tensor)[np.newaxis]}


def encoded(outputs: Mapping[str, np.ndarray], accept: str) -> Response:
    """Return the outputs as the client accepts them: .npy of the only one, .npz, or else JSON."""
    wanted = [one.partition(";")[0].strip().lower() for one in accept.split(",")]
    if NPY in wanted and len(outputs) == 1:
        return Response(to_npy(next(iter(outputs.values()))), media_type=NPY)
    if NPZ in wanted:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            for name, array in outputs.items():
                archive.writestr(f"{name}.npy", to_npy(array))
        return Response(file.getvalue(), media_type=NPZ)
    told = {name: _listed(array) for name, array in outputs.items()}
    return Response(json.dumps({"outputs": told}, separators=(",", ":"), allow_nan=False), media_type=JSON)


def to_npy(array: np.ndarray) -> bytes:
    """Return an array of numbers as a .npy file.

    `numpy.save` writes its header anew each time, and to what is no file in small pieces.
    """
    return b"".join((_header(array.dtype, array.shape), np.ascontiguousarray(array).data))


@lru_cache(64)
def _header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Return what the .npy file of such an array in C order begins with."""
    file = io.BytesIO()
    npy.write_array_header_1_0(file, {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape})
    return file.getvalue()


def _listed(array: np.ndarray) -> Any:
    """Return nested lists; JSON has no NaN and no infinity, so these become null."""
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        numbers = array.astype(object)
        numbers[~np.isfinite(array)] = None
        return numbers.tolist()
    return array.tolist()


def _place(spec: Any) -> tuple[str, int, int | None, int | None]:
    """Return layout, channels, height and width of pictures; None: as high or wide as they are."""
    shape = spec.shape
    if len(shape) == 4 and (shape[0] == 1 or isinstance(shape[0], str)):
        for layout, (channels, height, width) in (("nchw", shape[1:]), ("nhwc", (shape[3], *shape[1:3]))):
            if channels in _MODES:
                sizes = [size if isinstance(size, int) else None for size in (height, width)]
                return layout, channels, sizes[0], sizes[1]
    raise Problem(
        415, "NO_PICTURE", f"input {spec.name!r} of shape {list(shape)} takes no picture", f"send {NPY}, {NPZ} or {JSON}"
    )


def _only(inputs: Sequence[Any], what: str) -> Any:
    if len(inputs) != 1:
        names = ", ".join(repr(spec.name) for spec in inputs)
        raise Problem(415, "INPUT_NAME", f"{what} is for one input, and the model has {names}", f"send {NPZ} or {JSON}")
    return inputs[0]


def _numbers(request: Request, name: str) -> list[float] | None:
    text = request.query_params.get(name)
    try:
        numbers = None if text is None else [float(one) for one in text.split(",")]
        if numbers and not all(map(math.isfinite, numbers)):
            raise ValueError("not all of its numbers are finite")
        return numbers
    except ValueError as error:
        raise _unreadable(f"query parameter {name!r}", error, f"send numbers: ?{name}=128 or ?{name}=124,116,104") from None


def _by_channel(numbers: Sequence[float], channels: int) -> np.ndarray:
    if len(numbers) not in (1, channels):
        problem = f"{len(numbers)} numbers are given for {channels} channels"
        raise Problem(400, "NOT_READABLE", problem, "send one for mean and scale, or one for each channel")
    with np.errstate(over="ignore"):
        return np.asarray(numbers, np.float32)


def _check_holds(dtype: Any, mean: np.ndarray, scale: np.ndarray) -> None:
    """Refuse what makes the darkest or the lightest pixel more than a float of the input can be."""
    with np.errstate(over="ignore", invalid="ignore"):
        ends = (np.array([[0], [255]], np.float32) - mean) * scale
        held = ends.astype(dtype.numpy) if dtype.is_float else ends
    if not np.isfinite(held).all():
        problem = f"(pixel - mean) * scale is more than the type {dtype} of the input holds"
        raise Problem(400, "NOT_READABLE", problem, "send a smaller mean or scale")


def _unreadable(what: str, error: Exception, hint: str) -> Problem:
    return Problem(400, "NOT_READABLE", f"this cannot be read as {what}: {error}"[:500], hint)


def _too_large(largest: int) -> Problem:
    return Problem(413, "TOO_LARGE", f"more than {largest} bytes are not taken", "send less, or have --largest-body raised")
