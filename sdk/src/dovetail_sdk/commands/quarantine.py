"""`dovetail quarantine`: backends that crashed or hung when probed, and are not tried again."""

from __future__ import annotations

import time

import click

from ..options import json_option


@click.group(no_args_is_help=True)
def command() -> None:
    """Show or release backends that crashed or hung when probed."""


@command.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List what is in quarantine, and why."""
    from dovetail.discovery.registry import default_registry

    found = default_registry().verdicts.quarantine()
    if as_json:
        import json

        facts = [
            {"id": one.id, "code": one.code, "reason": one.reason, "signal": one.signal, "count": one.count, "time": one.time}
            | {"trace": one.trace}
            for one in found
        ]
        click.echo(json.dumps(facts, indent=2))
        return
    if not found:
        click.echo("nothing is in quarantine")
        return
    from ..rendering import show, table

    rows = [
        (one.id, one.code, str(one.count), time.strftime("%Y-%m-%d %H:%M", time.localtime(one.time)), one.reason)
        for one in found
    ]
    show(table(("backend", "code", "times", "last", "what happened"), rows, right=("times",)))


@command.command()
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Release all.")
def release(ids: tuple[str, ...], everything: bool) -> None:
    """Let backends be tried again when they are next asked for."""
    from dovetail.discovery.registry import default_registry

    from ..rendering import remark

    if everything == bool(ids):
        raise click.UsageError("name the backends to release, or --all")
    registry = default_registry()
    known = [one.id for one in registry.verdicts.quarantine()]
    failed = False
    for id in known if everything else ids:
        if registry.release(id):
            click.echo(f"{id} is released; it is probed again when it is next asked for")
        else:
            failed = True
            remark(f"{id} is not in quarantine; what is: {', '.join(known) or 'nothing'}")
    if failed:
        raise click.exceptions.Exit(1)
