"""`dovetail diff`: how far two networks, or two ways to run one, are apart."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..options import (
    STDOUT,
    FiniteRange,
    JsonToFile,
    against_option,
    html_option,
    input_option,
    json_file_option,
    limits_option,
    model_or_demo,
    placing_options,
)
from . import run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.text import Text

    from dovetail import Limits, LoadedNetwork

    from ..comparison import Comparison, Row
    from ..options import ModelFile, Placing

_FEEDING = ("seed", "mean", "scale", "layout", "channels")
"""Options of `dovetail run` that say what is fed."""


@click.command(cls=JsonToFile)
@click.argument("model", metavar="A", type=click.Path(path_type=Path), callback=model_or_demo)
@click.argument("other", metavar="[B]", required=False, type=click.Path(path_type=Path), callback=model_or_demo)
@placing_options
@against_option
@input_option(", which is the default.")
@limits_option
@click.option("--layers", is_flag=True, help="Also compare what each layer computes, and say where they part first.")
@click.option(
    "--tolerance",
    type=FiniteRange(min=0),
    metavar="SHARE",
    help="Largest error allowed, as a share of the largest magnitude; 0: equal. Default: by type, see the README.",
)
@click.option("--runs", type=click.IntRange(min=1), default=1, show_default=True, help="Runs, with other random inputs each.")
@click.option("--timeout", type=FiniteRange(min=0, min_open=True), metavar="SECONDS", help="Give up a run after this long.")
@json_file_option
@html_option
def command(
    model: ModelFile,
    other: ModelFile | None,
    placing: Placing,
    against: list[str] | None,
    limits: Limits | None,
    layers: bool,
    tolerance: float | None,
    runs: int,
    timeout: float | None,
    json_file: Path | None,
    page: Path | None,
    inputs: tuple[str, ...],
    seed: int,
    mean: tuple[float, ...] | None,
    scale: tuple[float, ...] | None,
    layout: str,
    channels: str,
) -> None:
    """Run model A and model B, or A on other backends, on the same inputs and compare.

    B runs where A runs, or on the backends of --against. Exits with 1 if an output is beyond the
    tolerance, or if the first of the backends that were named runs nothing.
    """
    from ..comparison import Comparison, Side
    from ..feeding import feeds_for
    from ..options import tell_assumed
    from ..pairs import Feeding
    from ..pictures import PictureSettings
    from ..rendering import progress

    if other is None and against is None:
        raise click.UsageError("with what is it to be compared? Name a second model, or backends: --against ID[,ID...]")
    layers = layers or page is not None  # which are what the page shows
    texts = inputs or ("random",)
    if runs > 1 and not any(text.rpartition("=")[2] == "random" for text in texts):
        raise click.UsageError("--runs: no input is random, so that all runs would be the same")
    a, b = Side.pair((model, other or model), (placing.backends, against or placing.backends), placing, limits)
    with _loaded(a, placing, limits) as loaded_a, _loaded(b, placing, limits) as loaded_b:
        settings = PictureSettings(mean, scale, layout, channels)
        feeding = Feeding.of(
            (loaded_a.inputs, loaded_b.inputs),
            (a.shapes, b.shapes),
            (a.network.meanings, b.network.meanings),
            all_random=set(texts) == {"random"},
        )
        fed = [feeds_for(feeding.given, texts, settings, seed + number) for number in range(runs)]
        tell_assumed(fed[0].assumed)
        arrays = [feeding.both(feeds.arrays) for feeds in fed]
        comparison = Comparison(a, b, loaded_a, loaded_b, arrays, tolerance, timeout)
        groups = comparison.layer_groups() if layers else []
        with progress("comparing", runs * (1 + len(groups))) as step:
            comparison.compare_outputs(step)
            for group in groups:
                comparison.compare_layers(group, step)
    document = comparison.as_dict() | {"inputs": [feeds.notes for feeds in fed], "seed": seed}
    _print(comparison, document, fed[0].notes, json_file, layers=layers)
    if page is not None:
        from ..pages import write_page
        from ..pages.difference import difference_page

        write_page(difference_page(comparison.graph(), comparison, comparison.sentences(layers=layers)), page)
    if not (comparison.is_within and comparison.is_of_what_was_asked):
        click.get_current_context().exit(1)


command.params += [parameter for parameter in run.command.params if parameter.name in _FEEDING]


def _loaded(side: Any, placing: Placing, limits: Limits | None) -> LoadedNetwork:
    import dovetail

    from ..rendering import working

    with working(f"loading {side.model.name}") as told:
        load = partial(dovetail.load, side.network, side.backends, threads=placing.threads, shapes=side.shapes or None)
        return load(options=side.options, isolate=side.isolate, limits=limits, progress=told)


def _print(
    comparison: Comparison, document: Mapping[str, Any], notes: Mapping[str, str], json_file: Path | None, *, layers: bool
) -> None:
    import json

    text = json.dumps(document, indent=2)
    if json_file == STDOUT:
        click.echo(text)
        return
    if json_file is not None:
        json_file.write_text(text + "\n", encoding="utf-8")
    from ..rendering import say, seconds_text, show

    for name, note in notes.items():
        say(f"{name} <- {note}")
    for label, side in (("A", comparison.a), ("B", comparison.b)):
        several = f", {seconds_text(side.median)} a run" if len(side.seconds) > 1 else ""  # the first run may make a plan
        say(f"{label}: {side.model} on {side.backends_used or 'the core'}{several}")
    show(rows_table("output", comparison.outputs))
    if comparison.layers:
        show(rows_table("layer", comparison.layers))
    for line in comparison.sentences(layers=layers):
        say(line)


def rows_table(what: str, rows: Sequence[Row]) -> Any:
    """Build the table of what was compared, in order of execution."""
    from ..fitting import Column, fitted_table
    from ..rendering import styled

    numbers = ("max abs", "mean abs", "max rel", "SNR dB", "cosine")
    cells: list[dict[str, str | Text]] = []
    for row in rows:
        found = row.difference
        values = (
            [f"{value:.3g}" for value in (found.max_abs, found.mean_abs, found.max_relative)]
            + [f"{found.snr:.1f}" if found.max_abs else "exact", f"{found.cosine:.6f}"]
            if found is not None
            else ["-"] * len(numbers)
        )
        verdict = styled(row.verdict, "red") if row.is_beyond else row.verdict
        cells.append(
            {
                what: row.label,
                "A on": row.backends[0],
                "B on": row.backends[1],
                **dict(zip(numbers, values, strict=True)),
                "": verdict,
            }
        )
    columns = (
        Column(what, least=20),
        Column("A on", leaves=5),
        Column("B on", leaves=4),
        Column("max abs", right=True),
        Column("mean abs", right=True, leaves=2),
        Column("max rel", right=True, leaves=3),
        Column("SNR dB", right=True),
        Column("cosine", right=True, leaves=1),
        Column(""),
    )
    return fitted_table(columns, cells)
