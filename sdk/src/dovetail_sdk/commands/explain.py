"""`dovetail explain`: which backend would run each layer, and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..options import (
    html_option,
    json_option,
    limits_option,
    model_argument,
    placing_options,
    value_option,
)

if TYPE_CHECKING:
    from dovetail import Limits
    from dovetail.optimizer.placement import Placement

    from ..options import ModelFile, Placing


@click.command()
@model_argument
@placing_options
@value_option
@limits_option
@click.option("--no-fallback", is_flag=True, help="Exit with 1 if a layer is not on its first choice.")
@json_option
@html_option
def command(
    model: ModelFile,
    placing: Placing,
    values: dict[str, str],
    limits: Limits | None,
    no_fallback: bool,
    as_json: bool,
    page: Path | None,
) -> None:
    """Show which backend would run each layer of MODEL, and why; runs nothing but constants."""
    import json

    import dovetail

    from ..options import one_for_open_sizes, shapes_for, values_for
    from ..rendering import remark, working

    network = dovetail.parse(model, limits=limits)
    shapes = shapes_for(network, placing.shape)
    fixed = values_for(network, values)
    assumed = one_for_open_sizes(network, shapes)
    with working(f"placing {model.name}") as told:
        sizes = {**shapes, **assumed} or None
        placement = dovetail.optimize(
            network,
            placing.backends,
            shapes=sizes,
            values=fixed,
            options=placing.options,
            isolate=placing.isolate,
            threads=placing.threads,
            progress=told,
            limits=limits,
        ).placement
    click.echo(json.dumps({**placement.to_dict(), "assumed": assumed}, indent=2) if as_json else placement.explain())
    if page is not None:
        from ..pages import write_page
        from ..pages.placement import placement_page
        from ..summary import with_known_shapes

        write_page(placement_page(with_known_shapes(network, sizes or {})[0], placement), page)
    complaint = fallback_complaint(placement)
    if no_fallback and complaint:
        remark(complaint, "error", "red")
        click.get_current_context().exit(1)


def fallback_complaint(placement: Placement) -> str:
    """Say which layers are not on their first choice, or return an empty string."""
    parts = [f"backend {one.request} is absent" for one in placement.absent]
    if placement.fallbacks:
        several = len(placement.fallbacks) > 1
        parts.append(
            f"{len(placement.fallbacks)} layer{'s' if several else ''} fell back, the first is {placement.fallbacks[0].name!r}"
        )
    return "; ".join(parts)
