"""Shapes and symbolic sizes."""

from __future__ import annotations

import logging
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from dovetail import Network

Shapes = Mapping[str, tuple[int, ...]]

logger = logging.getLogger("dovetail.sdk")


def shape_of(text: str) -> tuple[str, tuple[int, ...]]:
    """Read ``x=1,3,224,224``, ``x=1x3x224x224`` or ``N=1`` as a name and sizes.

    Raises:
        click.BadParameter: It is not written so.
    """
    name, _, sizes = text.rpartition("=")
    if not name or not re.fullmatch(r"\d+([,x]\d+)*", sizes, re.ASCII):
        raise click.BadParameter(f"{text!r} is not a shape; write name=1,3,224,224, or N=1 for a symbolic size")
    return name, tuple(int(size) for size in re.split("[,x]", sizes))


def _collect_shapes(context: click.Context, parameter: click.Parameter, value: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    return dict(value)


shape_option = click.option(
    "--shape",
    multiple=True,
    type=shape_of,
    metavar="NAME=SIZES",
    callback=_collect_shapes,
    help="Shape of an input (x=1,3,224,224) or a symbolic size (N=8). Repeatable. Default for what stays open: 1.",
)
"""Add ``--shape``, passed on as `shape`: sizes by name."""


def shapes_for(network: Network, shape: Shapes) -> dict[str, Any]:
    """Tell whole shapes of inputs from symbolic sizes, as `dovetail.optimize` wants them.

    Raises:
        click.UsageError: A name is neither an input nor a symbolic size of the network.
    """
    inputs = {layer.name: layer.output.shape for layer in network.inputs}
    symbols = {size for sizes in inputs.values() for size in sizes if isinstance(size, str)}
    result: dict[str, Any] = {}
    for name, sizes in shape.items():
        if name in inputs:
            result[name] = sizes
        elif name in symbols and len(sizes) == 1:
            result[name] = sizes[0]
        else:
            known = f"inputs {', '.join(inputs) or 'none'}; symbolic sizes {', '.join(sorted(symbols)) or 'none'}"
            raise click.UsageError(f"--shape {name}=...: the network has no such input or symbolic size ({known})")
    return result


def one_for_open_sizes(network: Network, shapes: Mapping[str, Any]) -> dict[str, int]:
    """Take 1 for each symbolic size that `shapes` leave open, and tell so."""
    from ..summary import open_symbols

    assumed = dict.fromkeys(open_symbols(network, shapes), 1)
    tell_assumed(assumed)
    return assumed


def tell_assumed(assumed: Mapping[str, int]) -> None:
    """Print on standard error which sizes open symbols took, if any, and how to choose others."""
    if assumed:
        sizes = ", ".join(f"{symbol} = {size}" for symbol, size in assumed.items())
        other = " ".join(f"--shape {shlex.quote(f'{symbol}=8')}" for symbol in assumed)
        logger.info(
            "note: %s %s open: taking %s; %s for %s",
            ", ".join(assumed),
            "is" if len(assumed) == 1 else "are",
            sizes,
            other,
            "another size" if len(assumed) == 1 else "other sizes",
        )
