"""Turn what was given by ``--input`` into an array per input of a network."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import numpy.typing as npt

from . import sounds
from .pictures import SUFFIXES, PictureSettings, UnreadableFile, picture_tensor, to_bfloat16

if TYPE_CHECKING:
    from dovetail import DType, Quantization
    from dovetail.graph.meaning import Meaning
    from dovetail.graph.tensor import Dimension

Array = npt.NDArray[Any]
RANDOM = "random"
STANDARD_INPUT = "-"
NOT_READ = (
    "an input is not read from standard input: write it to a file whose suffix says what it is (.npy, .npz, .wav, .png), "
    "and name that"
)
POSITIONAL_INPUTS = ("in", "input")
"""What arrays of a .npz are called that go by the position of an input: in_0, in_1."""


@dataclass(frozen=True, slots=True)
class InputSpec:
    """What an input takes."""

    name: str
    shape: tuple[Dimension, ...]
    dtype: DType
    quantization: Quantization | None = None
    meaning: Meaning | None = None

    def __str__(self) -> str:
        return f"{self.name!r} {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Feeds:
    """Arrays by input name, and for each a sentence that tells where it came from.

    Attributes:
        arrays, notes: By input name.
        assumed: The sizes of random inputs that nothing fixed, by symbol.
        pictures: The files of inputs that are pictures, by input name.
    """

    arrays: dict[str, Array] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    assumed: dict[str, int] = field(default_factory=dict)
    pictures: dict[str, Path] = field(default_factory=dict)

    def add(self, name: str, array: Array | None, note: str) -> None:
        """Take an array, or None for one that is made up once the others have fixed open sizes.

        Raises:
            click.UsageError: The input was given before.
        """
        if name in self.notes:
            raise click.UsageError(f"input {name!r} is given twice")
        self.notes[name] = note
        if array is not None:
            self.arrays[name] = array


def input_specs(specs: Iterable[Any], fixed: dict[str, Any], meanings: Mapping[str, Meaning] | None = None) -> list[InputSpec]:
    """Describe the inputs of a loaded network, with the sizes that were given put in."""
    given = list(specs)
    sizes: dict[Any, Any] = {name: size for name, size in fixed.items() if isinstance(size, int)}
    for spec in given:
        sizes.update(_sizes(spec.shape, fixed.get(spec.name, ())))
    result = []
    for spec in given:
        shape = fixed[spec.name] if spec.name in fixed else (sizes.get(size, size) for size in spec.shape)
        meaning = (meanings or {}).get(spec.name)
        result.append(InputSpec(spec.name, tuple(shape), spec.dtype, getattr(spec, "quantization", None), meaning))
    return result


def _sizes(shape: Sequence[Dimension], actual: Any) -> dict[str, int]:
    """Tell the sizes of the symbols in a shape from an actual one.

    Another rank, which will be refused, tells nothing.
    """
    if not isinstance(actual, tuple) or len(actual) != len(shape):
        return {}
    return {symbol: size for symbol, size in zip(shape, actual, strict=True) if isinstance(symbol, str)}


def feeds_for(
    specs: Sequence[InputSpec], texts: Sequence[str], settings: PictureSettings, seed: int = 0, rate: int | None = None
) -> Feeds:
    """Read all inputs.

    An open size of a random input is that of the other inputs, or else 1, as `Feeds.assumed` tells.

    Args:
        specs: The inputs of the network.
        texts: Each ``name=source`` or ``source``; a source is a .npy, .npz, .wav or picture file,
            or "random". Without a name, a .npz gives the inputs that its arrays are named after,
            or whose positions they have (in_0, in_1), another file the only input not given
            otherwise, and "random" all inputs not given otherwise.
        settings: How pictures are read.
        seed: For "random".
        rate: How many samples a second sounds must have; None for what the model says, or any.

    Raises:
        UnreadableFile: A file cannot be read, or what it holds does not go into the input.
        click.UsageError: An input is not given, given twice or unknown, or takes no such file.
    """
    by_name = {spec.name: spec for spec in specs}
    feeds = Feeds()
    nameless: list[str] = []
    for text in texts:
        name, source = split_source(text, by_name)
        if name is None:
            nameless.append(source)
        else:
            _feed(feeds, by_name[name], source, settings, rate)
    for source in sorted(nameless, key=lambda source: source == RANDOM):
        _feed_nameless(feeds, by_name, source, settings, rate)
    missing = [spec for spec in specs if spec.name not in feeds.notes]
    if missing:
        given = f"--input {missing[0].name}=FILE" if len(specs) > 1 else "--input FILE"
        what = f"{len(missing)} input{'s are' if len(missing) > 1 else ' is'} not given: {', '.join(map(str, missing))}"
        archive = next((Path(source) for source in nameless if Path(source).suffix.lower() == ".npz"), None)
        if archive is not None:
            raise UnreadableFile(archive, f"{archive} does not have all inputs: {what}")
        raise click.UsageError(f"{what}; add {given} (.npy, .npz, .wav, a picture), or --input random")
    _make_up(feeds, specs, seed)
    return feeds


def _make_up(feeds: Feeds, specs: Sequence[InputSpec], seed: int) -> None:
    sizes: dict[str, int] = {}
    for spec in specs:
        if spec.name in feeds.arrays:
            sizes.update(_sizes(spec.shape, feeds.arrays[spec.name].shape))
    for spec in specs:
        if spec.name not in feeds.arrays:
            feeds.assumed.update({size: 1 for size in spec.shape if isinstance(size, str) and size not in sizes})
            feeds.arrays[spec.name], feeds.notes[spec.name] = random_array(spec, seed, {**sizes, **feeds.assumed})


def split_source(text: str, by_name: Mapping[str, InputSpec]) -> tuple[str | None, str]:
    """Part ``name=source`` into the input and the source; None for a source without a name.

    Raises:
        click.UsageError: There is no such input, or a source without a name does not exist, or none
            follows the name.
    """
    if text == RANDOM or os.path.lexists(text):
        return None, text
    if text == STANDARD_INPUT:
        raise click.UsageError(NOT_READ)
    # The longest name first: a name may itself hold an equals sign.
    for name in sorted(by_name, key=len, reverse=True):
        if text.startswith(f"{name}="):
            source = text[len(name) + 1 :]
            if not source:  # which is the current folder, to a path
                raise click.UsageError(f"{text!r} names no file; write {name}=FILE, or {name}={RANDOM}")
            return name, source
    name, equals, source = text.partition("=")
    if equals and (source == RANDOM or os.path.lexists(source)):
        raise click.UsageError(f"there is no input {name!r}; the inputs are {', '.join(map(repr, by_name)) or 'none'}")
    raise click.UsageError(f"input file {text!r} does not exist")


def _feed(feeds: Feeds, spec: InputSpec, source: str, settings: PictureSettings, rate: int | None) -> None:
    feeds.add(spec.name, *_read(spec, source, settings, rate))
    if Path(source).suffix.lower() in SUFFIXES:
        feeds.pictures[spec.name] = Path(source)


def _feed_nameless(
    feeds: Feeds, by_name: dict[str, InputSpec], source: str, settings: PictureSettings, rate: int | None
) -> None:
    open_specs = [spec for spec in by_name.values() if spec.name not in feeds.notes]
    if source == RANDOM:
        for spec in open_specs:
            _feed(feeds, spec, RANDOM, settings, rate)
        return
    if Path(source).suffix.lower() == ".npz":
        arrays = load_npz(Path(source))
        if set(arrays) <= set(by_name):
            twice = next((name for name in arrays if name in feeds.notes), None)
            if twice is not None:
                raise UnreadableFile(Path(source), f"{source} has input {twice!r}, which is given twice then")
            for name, array in arrays.items():
                feeds.add(name, *_cast(by_name[name], array, Path(source), f"[{name}]"))
            return
        called = _inputs_beside_outputs(arrays, by_name, [spec.name for spec in open_specs])
        if called:
            for name, key in called.items():
                feeds.add(name, *_cast(by_name[name], arrays[key], Path(source), f"[{key}]"))
            return
        if len(arrays) > 1 or len(by_name) > 1:
            raise UnreadableFile(
                Path(source),
                f"{source} has the arrays {', '.join(map(repr, arrays)) or 'none'}, the inputs are "
                f"{', '.join(map(repr, by_name))}; say which goes where by naming the arrays so",
            )
    if len(open_specs) != 1:
        names = ", ".join(repr(spec.name) for spec in open_specs) or "none"
        raise click.UsageError(f"which input is {source} for? Write --input NAME={source}; still open: {names}")
    _feed(feeds, open_specs[0], source, settings, rate)


def _inputs_beside_outputs(arrays: Mapping[str, Array], inputs: Iterable[str], wanted: Sequence[str]) -> dict[str, str]:
    """Say by input what its array is called in a file that holds outputs, too; empty: none is.

    Arrays are called after the inputs, or after their positions.

    Args:
        arrays: Those of the file.
        inputs: All inputs, in order.
        wanted: Those that are not given otherwise.
    """
    called = {name: name for name in wanted}
    if set(wanted) <= arrays.keys():
        return called
    for prefix in POSITIONAL_INPUTS:
        keys = {name: f"{prefix}_{at}" for at, name in enumerate(inputs)}
        if set(keys.values()) <= arrays.keys() and f"{prefix}_{len(keys)}" not in arrays:
            return {name: keys[name] for name in wanted}
    return {}


def _read(spec: InputSpec, source: str, settings: PictureSettings, rate: int | None) -> tuple[Array | None, str]:
    if source == RANDOM:
        return None, RANDOM
    path = Path(source)
    if source == STANDARD_INPUT and not path.exists():
        raise click.UsageError(NOT_READ)
    suffix = path.suffix.lower()
    if path.is_symlink() and not path.exists():
        raise UnreadableFile(path, f"{path} is a link to {str(path.readlink())!r}, which does not exist")
    if not path.is_file():
        raise UnreadableFile(path, f"input file {source!r} {_why_no_file(path)}")
    if suffix == ".npy":
        return _cast(spec, load_npy(path), path)
    if suffix == ".npz":
        arrays = load_npz(path)
        if spec.name in arrays:
            return _cast(spec, arrays[spec.name], path, f"[{spec.name}]")
        if len(arrays) == 1:
            (name,) = arrays
            return _cast(spec, arrays[name], path, f"[{name}]")
        raise UnreadableFile(path, f"{source} has no array {spec.name!r}; it has {', '.join(map(repr, arrays)) or 'none'}")
    if suffix in SUFFIXES:
        array, note = picture_tensor(path, spec.name, spec.shape, spec.dtype, spec.quantization, settings, spec.meaning)
        return array, f"{source}: {note}"
    if suffix in sounds.SUFFIXES:
        known = spec.meaning.rate if spec.meaning is not None else 0
        array, note = sounds.sound_tensor(path, spec.name, spec.shape, spec.dtype, spec.quantization, rate or known or None)
        return array, f"{source}: {note}"
    raise click.UsageError(f"{source} is neither .npy, .npz, .wav nor a picture ({', '.join(sorted(SUFFIXES))})")


def _why_no_file(path: Path) -> str:
    if not path.exists():
        return "does not exist"
    return "is a folder" if path.is_dir() else "is a device or a pipe; inputs are read from files"


def load_npy(path: Path) -> Array:
    """Read the array of a .npy.

    Raises:
        UnreadableFile: It is none, or holds Python objects.
    """
    loaded = _load(path)
    if not isinstance(loaded, np.ndarray):
        raise UnreadableFile(path, f"{path} holds several arrays; its suffix must be .npz")
    return loaded


def load_npz(path: Path) -> dict[str, Array]:
    """Read the arrays of a .npz by name.

    Raises:
        UnreadableFile: It is none, or holds Python objects.
    """
    loaded = _load(path)
    if isinstance(loaded, np.ndarray):
        raise UnreadableFile(path, f"{path} holds one array; its suffix must be .npy")
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
        raise UnreadableFile(path, f"{path} cannot be read as arrays: {reason}") from None


def _cast(spec: InputSpec, array: Array, path: Path, member: str = "") -> tuple[Array, str]:
    """Convert between floats, or integers of one kind; the runtime is to refuse anything else.

    Args:
        spec: The input.
        array: What is to go into it.
        path: Where it comes from.
        member: Which array of that file it is, in brackets.
    """
    wanted, source = spec.dtype.numpy, f"{path}{member}"
    note = f"{source}: {array.dtype}[{', '.join(map(str, array.shape))}]"
    if array.dtype == wanted or spec.dtype.label == "bfloat16" or not np.can_cast(array.dtype, wanted, "same_kind"):
        return array, note
    converted = array.astype(wanted)
    if array.dtype.kind in "iu" and not np.array_equal(converted, array):
        raise UnreadableFile(path, f"{source} holds {array.dtype} numbers that do not fit into {spec.dtype}, as {spec} wants")
    return converted, f"{note} converted to {spec.dtype}"


def random_array(spec: InputSpec, seed: int, symbols: Mapping[str, int] | None = None) -> tuple[Array, str]:
    """Make up an input, the same for the same seed.

    There are normal floats, all bytes, and 0 or 1 for the integers that may be indices.

    Args:
        spec: The input.
        seed: Of the random numbers.
        symbols: The size of each symbol in the input's shape.
    """
    sizes = tuple((symbols or {})[size] if isinstance(size, str) else size for size in spec.shape)
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
