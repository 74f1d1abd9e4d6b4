"""`dovetail show`: what a network is made of."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..options import html_option, json_option, model_argument, shape_option

if TYPE_CHECKING:
    from ..options import ModelFile
    from ..summary import NetworkSummary, TensorSummary


@click.command()
@model_argument
@shape_option
@json_option
@html_option
@click.option("--dot", is_flag=True, help="Print the graph for Graphviz: ... --dot | dot -Tsvg > network.svg")
def command(model: ModelFile, shape: dict[str, tuple[int, ...]], as_json: bool, page: Path | None, dot: bool) -> None:
    """Show the layers, shapes, parameters and multiply-accumulates of MODEL; needs no backend."""
    if as_json and dot:
        raise click.UsageError("--json and --dot exclude each other")
    import dovetail

    from ..options import shapes_for, tell_assumed
    from ..rendering import say, show, working
    from ..summary import as_dict, as_dot, summarize, with_known_shapes, with_sizes_of_one

    with working(f"reading {model.name}"):
        network = dovetail.parse(model, late_weights=True)
        shapes = shapes_for(network, shape)
        graph, open_reason = with_known_shapes(network, shapes)
    if dot:
        click.echo(as_dot(graph))
        return
    summary = summarize(graph, open_reason, *with_sizes_of_one(network, shapes))
    tell_assumed(summary.assumed)
    if page is not None:
        from ..pages import write_page
        from ..pages.network import network_page

        write_page(network_page(graph, summary, total_lines(summary)), page)
    if as_json:
        import json

        click.echo(json.dumps(as_dict(summary), indent=2))
        return
    show(tensors_table(summary), layers_table(summary))
    for line in total_lines(summary):
        say(line)


def tensors_table(summary: NetworkSummary) -> Any:
    """Build the table of inputs, outputs and states."""
    from ..rendering import table

    def cells(direction: str, tensor: TensorSummary) -> tuple[str, ...]:
        shape = f"[{', '.join(map(str, tensor.shape))}]" if tensor.shape is not None else "?"
        return direction, tensor.name, tensor.dtype or "?", shape

    kinds = (("input", summary.inputs), ("output", summary.outputs), ("state", summary.states))
    rows = [cells(direction, tensor) for direction, tensors in kinds for tensor in tensors]
    return table(("", "name", "dtype", "shape"), rows, long=("name",))


def layers_table(summary: NetworkSummary) -> Any:
    """Build the table of layers."""
    from ..fitting import Column, fitted_table
    from ..rendering import count_text

    rows = [
        {
            "layer": layer.name,
            "kind": layer.kind.removeprefix("dovetail."),
            "output": ", ".join(str(info) if info is not None else "?" for info in layer.outputs),
            "parameters": count_text(layer.parameters) if layer.parameters else "",
            "MACs": "?" if layer.macs is None else count_text(layer.macs) if layer.macs else "",
        }
        for layer in summary.layers
    ]
    columns = (
        Column("layer", least=24),
        Column("kind"),
        Column("output", least=24),
        Column("parameters", right=True, leaves=1),
        Column("MACs", right=True, leaves=2),
    )
    return fitted_table(columns, rows)


def total_lines(summary: NetworkSummary) -> list[str]:
    """Sum up a network in a few lines."""
    from ..rendering import bytes_text, count_text

    kinds = ", ".join(f"{count} {kind.removeprefix('dovetail.')}" for kind, count in summary.kinds().items())
    macs = "unknown" if summary.macs is None else count_text(summary.macs)
    sizes = ", ".join(f"{symbol} = {size}" for symbol, size in summary.assumed.items())
    lines = [
        f"{len(summary.layers)} layers: {kinds or 'none'}",
        f"{count_text(summary.parameters)} parameters ({bytes_text(summary.parameter_bytes)}), {macs} multiply-accumulates"
        + (f" for {sizes}" if sizes else ""),
    ]
    if summary.open_reason and not sizes:
        symbol = next((size for t in summary.inputs for size in t.shape or () if isinstance(size, str)), None)
        hint = f"; fix it: --shape {symbol}=SIZE" if symbol is not None else ""
        lines.append(f"not all sizes are known: {summary.open_reason}{hint}")
    return lines
