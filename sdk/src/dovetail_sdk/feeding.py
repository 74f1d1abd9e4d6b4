"""Turn what was given by ``--input`` into an array per input of a network."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import numpy.typing as npt

from .pictures import SUFFIXES, PictureSettings, picture_tensor, to_bfloat16

if TYPE_CHECKING:
    from dovetail import DType, Quantization
    from dovetail.tensor import Dimension

Array = npt.NDArray[Any]
RANDOM = "random"


@dataclass(frozen=True, slots=True)
class InputSpec:
    """What an input takes."""

    name: str
    shape: tuple[Dimension, ...]
    dtype: DType
    quantization: Quantization | None = None

    def __str__(self) -> str:
        return f"{self.name!r} {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Feeds:
    """Arrays by input name, and for each a sentence that tells where it came from."""

    arrays: dict[str, Array] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, array: Array, note: str) -> None:
        """Take one array.

        Raises:
            click.UsageError: The input was given before.
        """
        if name in self.arrays:
            raise click.UsageError(f"input {name!r} is given twice")
        self.arrays[name], self.notes[name] = array, note


def input_specs(specs: Iterable[Any], fixed: dict[str, Any]) -> list[InputSpec]:
    """Describe the inputs of a loaded network, with the sizes that were given put in."""
    result = []
    for spec in specs:
        sizes = fixed.get(spec.name, tuple(fixed.get(size, size) for size in spec.shape))
        result.append(InputSpec(spec.name, tuple(sizes), spec.dtype, getattr(spec, "quantization", None)))
    return result


def feeds_for(specs: Sequence[InputSpec], texts: Sequence[str], settings: PictureSettings, seed: int = 0) -> Feeds:
    """Read all inputs.

    Args:
        specs: The inputs of the network.
        texts: Each ``name=source`` or ``source``; a source is a .npy, .npz or picture file, or "random". Without a name, a .npz
            gives the inputs that its arrays are named after, another file the only input not given otherwise, and "random" all
            inputs not given otherwise.
        settings: How pictures are read.
        seed: For "random".

    Raises:
        click.UsageError: An input is not given, given twice or unknown, or a file cannot be read.
    """
    by_name = {spec.name: spec for spec in specs}
    feeds = Feeds()
    nameless: list[str] = []
    for text in texts:
        name, source = _split(text, by_name)
        if name is None:
            nameless.append(source)
        else:
            feeds.add(name, *_read(by_name[name], source, settings, seed))
    for source in sorted(nameless, key=lambda source: source == RANDOM):
        _feed_nameless(feeds, by_name, source, settings, seed)
    missing = [spec for spec in specs if spec.name not in feeds.arrays]
    if missing:
        given = f"--input {missing[0].name}=FILE" if len(specs) > 1 else "--input FILE"
        raise click.UsageError(
            f"{len(missing)} input{'s are' if len(missing) > 1 else ' is'} not given: {', '.join(map(str, missing))}; "
            f"add {given} (.npy, .npz, a picture), or --input random"
        )
    return feeds


def _split(text: str, by_name: dict[str, InputSpec]) -> tuple[str | None, str]:
    if text == RANDOM or Path(text).exists():
        return None, text
    # The longest name first: a name may itself hold an equals sign.
    for name in sorted(by_name, key=len, reverse=True):
        if text.startswith(f"{name}="):
            return name, text[len(name) + 1 :]
    name, equals, source = text.partition("=")
    if equals and (source == RANDOM or Path(source).exists()):
        raise click.UsageError(f"there is no input {name!r}; the inputs are {', '.join(map(repr, by_name)) or 'none'}")
    raise click.UsageError(f"input file {text!r} does not exist")


def _feed_nameless(feeds: Feeds, by_name: dict[str, InputSpec], source: str, settings: PictureSettings, seed: int) -> None:
    open_specs = [spec for spec in by_name.values() if spec.name not in feeds.arrays]
    if source == RANDOM:
        for spec in open_specs:
            feeds.add(spec.name, *_read(spec, RANDOM, settings, seed))
        return
    if Path(source).suffix.lower() == ".npz":
        arrays = _load_npz(Path(source))
        if set(arrays) <= set(by_name):
            for name, array in arrays.items():
                feeds.add(name, *_cast(by_name[name], array, f"{source}[{name}]"))
            return
        if len(arrays) > 1 or len(by_name) > 1:
            raise click.UsageError(
                f"the arrays in {source} are {', '.join(map(repr, arrays))}, the inputs {', '.join(map(repr, by_name))}; "
                "say which goes where by naming the arrays so"
            )
    if len(open_specs) != 1:
        names = ", ".join(repr(spec.name) for spec in open_specs) or "none"
        raise click.UsageError(f"which input is {source} for? Write --input NAME={source}; still open: {names}")
    feeds.add(open_specs[0].name, *_read(open_specs[0], source, settings, seed))


def _read(spec: InputSpec, source: str, settings: PictureSettings, seed: int) -> tuple[Array, str]:
    if source == RANDOM:
        return random_array(spec, seed)
    path = Path(source)
    suffix = path.suffix.lower()
    if not path.is_file():
        raise click.UsageError(f"input file {source!r} does not exist")
    if suffix == ".npy":
        return _cast(spec, _load_npy(path), source)
    if suffix == ".npz":
        arrays = _load_npz(path)
        if spec.name in arrays:
            return _cast(spec, arrays[spec.name], f"{source}[{spec.name}]")
        if len(arrays) == 1:
            (name,) = arrays
            return _cast(spec, arrays[name], f"{source}[{name}]")
        raise click.UsageError(f"{source} has no array {spec.name!r}; it has {', '.join(map(repr, arrays)) or 'none'}")
    if suffix in SUFFIXES:
        array, note = picture_tensor(path, spec.name, spec.shape, spec.dtype, spec.quantization, settings)
        return array, f"{source}: {note}"
    raise click.UsageError(f"{source} is neither .npy, .npz nor a picture ({', '.join(sorted(SUFFIXES))})")


def _load_npy(path: Path) -> Array:
    loaded = _load(path)
    if not isinstance(loaded, np.ndarray):
        raise click.UsageError(f"{path} holds several arrays; its suffix must be .npz")
    return loaded


def _load_npz(path: Path) -> dict[str, Array]:
    loaded = _load(path)
    if isinstance(loaded, np.ndarray):
        raise click.UsageError(f"{path} holds one array; its suffix must be .npy")
    return loaded


def _load(path: Path) -> Array | dict[str, Array]:
    """Read a file of one or several arrays; pickled objects, which could run code, are refused."""
    try:
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            return loaded if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
    except (ValueError, EOFError, TypeError, zipfile.BadZipFile) as error:  # OSError speaks for itself
        # NumPy's advice is to unpickle what it does not know.
        reason = "it is no such file, or holds Python objects" if "pickle" in str(error) else error
        raise click.UsageError(f"{path} cannot be read as arrays: {reason}") from None


def _cast(spec: InputSpec, array: Array, source: str) -> tuple[Array, str]:
    """Convert between floats, or between integers of one kind; anything else is left for the runtime to refuse."""
    wanted = spec.dtype.numpy
    note = f"{source}: {array.dtype}[{', '.join(map(str, array.shape))}]"
    if array.dtype == wanted or spec.dtype.label == "bfloat16" or not np.can_cast(array.dtype, wanted, "same_kind"):
        return array, note
    converted = array.astype(wanted)
    if array.dtype.kind in "iu" and not np.array_equal(converted, array):
        raise click.UsageError(f"{source} holds {array.dtype} numbers that do not fit into {spec.dtype}, as {spec} wants")
    return converted, f"{note} converted to {spec.dtype}"


def random_array(spec: InputSpec, seed: int) -> tuple[Array, str]:
    """Make up an input, the same for the same seed: normal floats, all bytes, and 0 or 1 for the integers that may be indices.

    Raises:
        click.UsageError: A size is symbolic.
    """
    sizes = tuple(size for size in spec.shape if isinstance(size, int))
    if len(sizes) != len(spec.shape):
        symbol = next(size for size in spec.shape if isinstance(size, str))
        raise click.UsageError(f"the size {symbol!r} of input {spec} is open; fix it: --shape {symbol}=1")
    random = np.random.default_rng(seed)
    dtype = spec.dtype
    if dtype.is_float:
        normal = random.standard_normal(sizes, np.float32)
        array = to_bfloat16(normal) if dtype.label == "bfloat16" else normal.astype(dtype.numpy)
        what = "normally distributed"
    elif dtype.bits == 8 and dtype.is_integer:
        limits = np.iinfo(dtype.numpy)
        array = random.integers(limits.min, limits.max, sizes, dtype.numpy, endpoint=True)
        what = f"from {limits.min} to {limits.max}"
    else:
        array = random.integers(0, 2, sizes).astype(dtype.numpy)
        what = "0 or 1"
    return array, f"random {dtype}[{', '.join(map(str, sizes))}], {what}, seed {seed}"
