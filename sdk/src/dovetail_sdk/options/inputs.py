"""What inputs are: files or random numbers, and values that decide shapes or branches."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    import numpy.typing as npt

    from dovetail import Network

_Function = TypeVar("_Function", bound=Callable[..., Any])


def input_option(then: str) -> Callable[[_Function], _Function]:
    """Return what adds ``--input``, passed on as `inputs`: texts as `feeding.feeds_for` reads them.

    Args:
        then: What the help text says behind the kinds of files.
    """
    return click.option(
        "-i",
        "--input",
        "inputs",
        multiple=True,
        metavar="[NAME=]SOURCE",
        help=f"A .npy, .npz, .wav or picture file, or 'random'{then} Repeatable.",
    )


def _collect_values(context: click.Context, parameter: click.Parameter, value: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in value:
        name, equals, content = text.rpartition("=")
        if not (equals and name and content):
            raise click.BadParameter(f"{text!r} is no value; write NAME=VALUE, such as flag=true, sizes=3,4 or x=FILE.npy")
        found[name] = content
    return found


value_option = click.option(
    "--value",
    "values",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_collect_values,
    help="Value of an input that a branch or a shape depends on: flag=true, sizes=3,4 or x=FILE.npy. Repeatable.",
)
"""Add ``--value``, passed on as `values`: texts by name of the input, for `values_for`."""


def values_for(network: Network, values: Mapping[str, str]) -> dict[str, npt.NDArray[Any]] | None:
    """Read the values of inputs, as `dovetail.optimize` wants them; None if there are none.

    Args:
        network: The network.
        values: By input: a .npy, or JSON, where brackets around a list may be left out.

    Raises:
        click.UsageError: There is no such input, or the value does not fit it.
    """
    import numpy as np

    from ..feeding import load_npy

    inputs = {layer.name: layer.output.known_info for layer in network.inputs}
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, text in values.items():
        if name not in inputs:
            known = ", ".join(map(repr, inputs)) or "none"
            raise click.UsageError(f"--value {name}=...: there is no such input; the inputs are {known}")
        dtype = inputs[name].dtype
        if text.endswith(".npy"):
            if not Path(text).is_file():
                raise click.UsageError(f"--value {name}={text}: there is no such file")
            array = load_npy(Path(text))
        else:
            array = _array_of(name, text)
        is_alike = array.dtype.kind == dtype.numpy.kind or {array.dtype.kind, dtype.numpy.kind} <= {*"iuf"}
        with np.errstate(invalid="ignore", over="ignore"):
            converted = array.astype(dtype.numpy) if is_alike else array
        if not is_alike or (dtype.is_integer and not np.array_equal(converted, array)):
            raise click.UsageError(f"--value {name}={text}: input {name!r} is {dtype}, and this is no value of that type")
        arrays[name] = converted
    return arrays or None


def _array_of(name: str, text: str) -> npt.NDArray[Any]:
    import numpy as np

    for written in (text, f"[{text}]"):
        try:
            array = np.array(json.loads(written))
        except ValueError:  # also of lists of different lengths
            continue
        if array.dtype.kind in "biuf":
            return array
    raise click.UsageError(f"--value {name}={text}: it is neither a number, true, false, numbers with commas, nor a .npy file")
