"""`dovetail tune`: find the fastest way to compute each layer on this machine, and keep it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..options import json_option, model_or_demo, placing_options, value_option

if TYPE_CHECKING:
    from ..options import ModelFile, Placing
    from ..tuning import TuningReport


@click.command()
@click.argument("model", required=False, type=click.Path(path_type=Path), callback=model_or_demo)
@placing_options
@value_option
@click.option("--rounds", type=click.IntRange(min=3), default=10, show_default=True, help="Turns of each way.")
@click.option("--again", is_flag=True, help="Measure also what is known.")
@click.option("--clear", is_flag=True, help="Forget what was found, of the backends of -b or of all; takes no MODEL.")
@json_option
def command(
    model: ModelFile | None,
    placing: Placing,
    values: dict[str, str],
    rounds: int,
    again: bool,
    clear: bool,
    as_json: bool,
) -> None:
    """Find the fastest way to compute each layer of MODEL on this machine, for all later loads.

    Tuning is optional: without it backends choose by rules of their own. What is found holds for
    the same backend, options, machine and number of threads. Leave the machine alone meanwhile.
    """
    if clear:
        _clear(model, placing.backends)
        return
    if model is None:
        raise click.UsageError("Missing argument 'MODEL'.")
    if placing.isolate:
        raise click.UsageError("what runs in a process of its own cannot be tuned: leave --isolate out")

    import dovetail

    from ..options import one_for_open_sizes, shapes_for, values_for
    from ..rendering import working
    from ..tuning import tune as tune_network

    network = dovetail.parse(model)
    shapes = shapes_for(network, placing.shape)
    shapes |= one_for_open_sizes(network, shapes)
    with working(f"tuning {model.name}") as told:
        report = tune_network(
            network,
            placing.backends,
            threads=placing.threads,
            shapes=shapes or None,
            values=values_for(network, values),
            options=placing.options,
            rounds=rounds,
            again=again,
            progress=told,
        )
    if as_json:
        import json

        click.echo(json.dumps(report.to_dict(), indent=2))
        return
    _print(report)


def _clear(model: ModelFile | None, backends: list[str] | None) -> None:
    if model is not None:
        raise click.UsageError("--clear takes no MODEL: what is found holds for layers of any model")
    from dovetail.contract.backend_id import BackendRequest
    from dovetail.optimizer.tuned_choices import Findings

    findings = Findings()
    ids = None if backends is None else [str(BackendRequest.parse(name).id) for name in backends]
    click.echo(f"{findings.clear(ids)} findings removed from {findings.folder or 'nowhere: there is no cache folder'}")


def _print(report: TuningReport) -> None:
    from ..rendering import remark, seconds_text, show, table

    for note in report.notes:
        remark(f"note: {note}")
    if not report.layers:
        click.echo("there is nothing to choose: no backend offers another way to compute a layer of this network")
        return
    rows = [
        (
            ", ".join(row.layers),
            row.backend,
            row.default,
            seconds_text(row.seconds[row.default]),
            row.winner if row.winner != row.default else "the same",
            seconds_text(row.seconds[row.winner]),
            f"{row.gain_seconds / row.seconds[row.default]:.1%}" if row.winner != row.default else "",
            "" if row.is_new else "known",
        )
        for row in report.layers
    ]
    columns = ("layer", "backend", "default", "takes", "winner", "takes ", "gain", "")
    show(table(columns, rows, right=("takes", "takes ", "gain"), long=("layer",)))
    changed = sum(row.winner != row.default for row in report.layers)
    threads = f"{report.threads} thread{'s' if report.threads > 1 else ''}"
    click.echo(f"{changed} of {len(rows)} choices differ from the default, with {threads}")
    if changed:
        click.echo(f"gain, estimated from the layers: {seconds_text(report.gain_seconds)} a run")
    if report.before_seconds is not None and report.after_seconds is not None:
        before, after = seconds_text(report.before_seconds), seconds_text(report.after_seconds)
        click.echo(f"the network, alternating: {before} untuned, {after} tuned")
    click.echo(f"kept in {report.folder}" if report.folder else "kept nowhere")
