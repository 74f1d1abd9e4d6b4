"""`dovetail doctor`: why a backend is, or is not, there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ..options import in_folder, json_option, paths_option


@click.command()
@click.argument("ids", metavar="[ID]...", nargs=-1)
@json_option
@click.option(
    "--bundle",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=in_folder,
    help="Also write all of it, and facts about this machine, into a zip file for a support desk. No weights, no inputs.",
)
@click.option("--no-probe", is_flag=True, help="Do not try the backends in a child process.")
@paths_option
def command(ids: tuple[str, ...], as_json: bool, bundle: Path | None, no_probe: bool, paths: tuple[str, ...]) -> None:
    """Report how far the checks of each backend get, which step refuses it, why, and what to do.

    None is loaded into this process: each is tried in a child process. Exit code 1: something is
    not as it should be; a device that is not there counts only for backends that were named.
    """
    from dovetail.discovery.registry import BackendState
    from dovetail.ground.settings import probing

    from ..diagnosis import diagnose, write_bundle
    from ..rendering import working

    with working("looking at the backends"):
        problems, defaults = _configured()
        report = diagnose(ids, paths, problems, defaults, probing=probing() and not no_probe)
    if bundle is not None:
        write_bundle(report, bundle)
        click.echo(f"written: {bundle}", err=True)
    if as_json:
        import json

        click.echo(json.dumps(report, indent=2))
    else:
        _print(report)
    wrong = [row for row in report["rows"] if not (row["ready"] or (not ids and BackendState(row["state"]).lacks_device))]
    if wrong or report["configuration"]["problems"] or any(folder["refused"] for folder in report["folders"]):
        raise click.exceptions.Exit(1)


def _configured() -> tuple[list[str], dict[str, Any]]:
    """Say what is wrong in the configuration, and which options have defaults there."""
    from ..configuration import problems, right_ones

    context = click.get_current_context().find_root()
    group = context.command
    return (problems(group, context), right_ones(group, context)) if isinstance(group, click.Group) else ([], {})


def _named(defaults: Mapping[str, Any]) -> str:
    """Name options that have defaults; those of one command behind it."""
    return ", ".join(f"{name} ({', '.join(one)})" if isinstance(one, dict) else name for name, one in defaults.items())


def _print(report: dict[str, Any]) -> None:
    from ..rendering import say

    for row in report["rows"]:
        _print_row(row)
    if not report["rows"]:
        click.echo("no backend was found; this brings the usual ones: pip install dovetail")
    for folder in report["folders"]:
        if not folder["refused"]:
            found = ", ".join(name or "one that is refused" for name in folder["backends"]) or "no backend"
            say(f"searched {folder['path']} ({folder['asked_by']}): {found}")
            for name, why in folder["skipped"].items():
                say(f"  {name}: {why}", indent=4)
    for line in report["configuration"]["problems"]:
        say(f"configuration: {line}")
    for line in report["warnings"]:
        say(f"warning: {line}")
    cache = report["cache"]
    say(f"verdicts are kept in {cache['folder']}" if not cache["problem"] else f"verdicts are not kept: {cache['problem']}")
    if report["defaults"]:
        say(f"options have defaults in config.toml: {_named(report['defaults'])}")
    ready = sum(row["ready"] for row in report["rows"])
    click.echo(f"{len(report['rows'])} found, {ready} ready, {len(report['rows']) - ready} refused")


def _print_row(row: dict[str, Any]) -> None:
    from ..rendering import say

    name = row["id"] or "(no id)"
    origin = f"{row['distribution']} {row['version']}, {row['origin']}" if row["distribution"] else row["origin"]
    if row["ready"]:
        click.echo(f"{click.style(name, bold=True)}: {click.style('ready', fg='green')}, passed step {row['step']}")
    else:
        code = row["code"] or row["state"].upper()
        click.echo(f"{click.style(name, bold=True)}: {click.style('refused', fg='red')} at step {row['step']}: {code}")
    say(f"  from: {origin}", indent=4)
    for label, text in (("why", row["reason"]), ("do", row["hint"])):
        if text:
            say(f"  {label}: {text}", indent=4)
    for note in row["notes"]:
        say(f"  note: {note}", indent=4)
    if row["stale"]:
        click.echo("  note: its files were replaced since it was loaded; start again to use the new ones")
