"""`dovetail backends`: what is installed, and in what state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..options import json_option, paths_option

if TYPE_CHECKING:
    from dovetail.discovery.registry import BackendRow, Registry

STYLES = {"available": "green", "loaded": "green"}


@click.command()
@json_option
@click.option("--check", is_flag=True, help="Load each backend, to see whether it can be; see also: dovetail doctor.")
@paths_option
def command(as_json: bool, check: bool, paths: tuple[str, ...]) -> None:
    """List the backends there are, without running code of any."""
    from dovetail.discovery.registry import default_registry

    registry = default_registry()
    for path in paths:
        registry.scan(path)
    if check:
        _import_all(registry)
    rows = registry.rows()
    if as_json:
        import json

        click.echo(json.dumps([as_dict(row) for row in rows], indent=2))
        return
    if not rows:
        click.echo("no backend is installed; this brings the usual ones: pip install dovetail")
        return
    from ..rendering import say, show

    show(backends_table(rows))
    for row in rows:
        deviations = sum(map(len, (row.manifest or {}).get("deviations", {}).values()))
        if deviations:
            known = click.style(f"{deviations} known deviation{'s' if deviations > 1 else ''}", fg="magenta")
            click.echo(f"{_shortened(row.id)}: {known}: dovetail claims {_shortened(row.id)}")
        if not row.state.is_ready:
            click.echo(f"{_shortened(row.id) or row.source}: {row.code or row.state} at step {row.step}")
            say(f"  why: {row.reason}", indent=4)
            say(f"  do: {row.hint}", indent=4)


def _import_all(registry: Registry) -> None:
    from dovetail import BackendError

    for row in registry.rows():
        if row.state.is_ready:
            try:
                registry.get(row.id)
            except BackendError:
                continue  # its row now tells the reason


def as_dict(row: BackendRow) -> dict[str, Any]:
    """Return a row for JSON."""
    return {
        "id": row.id,
        "state": str(row.state),
        "distribution": row.distribution,
        "version": row.version,
        "origin": row.origin,
        "manifest": dict(row.manifest) if row.manifest is not None else None,
        "step": row.step,
        "code": row.code,
        "reason": row.reason,
        "hint": row.hint,
        "path": row.path,
        "notes": list(row.notes),
        "stale": row.stale,
    }


def backends_table(rows: tuple[BackendRow, ...]) -> Any:
    """Build the table of backends."""
    from ..rendering import styled, table

    cells = [
        (
            _shortened(row.id) or "-",
            styled(str(row.state), STYLES.get(row.state, "red")),
            row.device or "?",
            str(row.rank),
            f"{row.distribution} {row.version}" if row.distribution else row.origin,
            row.description if row.state.is_ready else "see below",
        )
        for row in rows
    ]
    return table(("backend", "state", "device", "rank", "from", "description"), cells, right=("rank",))


def _shortened(text: str) -> str:
    return text if len(text) <= 64 else f"{text[:61]}..."
