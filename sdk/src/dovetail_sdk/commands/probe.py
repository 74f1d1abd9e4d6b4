"""`dovetail probe`: try backends in a child process now, so that their first use need not."""

from __future__ import annotations

import click

from ..options import paths_option


@click.command()
@click.argument("ids", metavar="[ID]...", nargs=-1)
@paths_option
def command(ids: tuple[str, ...], paths: tuple[str, ...]) -> None:
    """Try backends, by default all, each in a child process, and remember how that went.

    For after an installation. A backend in quarantine is not tried: release it first. Exit code 1:
    one is not ready; a device that is not there counts only for backends that were named.
    """
    from dovetail import backends
    from dovetail.discovery.registry import default_registry

    from ..rendering import working

    names = ids or tuple(row.id for row in backends(paths=paths) if row.state.is_ready)
    failed = False
    for id in names:
        with working(f"probing {id}"):
            row = default_registry().examine(id, afresh=True)
        failed = failed or not (row.state.is_ready or (not ids and row.state.lacks_device))
        told = "; ".join(row.notes) if row.state.is_ready else f"{row.code} at step {row.step}: {row.reason}"
        click.echo(f"{id}: {told}")
        if row.hint:
            click.echo(f"  -> {row.hint}")
    if not names:
        click.echo("no backend is ready to be probed; this tells why: dovetail doctor")
    if failed:
        raise click.exceptions.Exit(1)
