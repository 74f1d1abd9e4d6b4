"""`dovetail guarded`: run a backend's kernels between inaccessible pages."""

from __future__ import annotations

import json
import re
from typing import Any

import click

from ..options import json_option
from .conform import options_of, seconds_of

_SHOWN = 20


def shard_of(context: click.Context, parameter: click.Parameter, value: str) -> tuple[int, int]:
    """Read ``2/8`` as the third of eight shards, numbered from 0."""
    number, slash, count = value.partition("/")
    if not (slash and number.isdecimal() and count.isdecimal() and int(number) < int(count)):
        raise click.BadParameter(f"{value!r} is no shard; write 0/8 to 7/8", context, parameter)
    return int(number), int(count)


def cases_of(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse what is no case before anything runs."""
    for text in value:
        if not re.fullmatch(r"(operator|network)/\d{1,9}", text, re.ASCII):
            raise click.BadParameter(f"{text!r} is no case; write operator/12 or network/3", context, parameter)
    return value


@click.command()
@click.argument("backend", metavar="ID")
@click.option("--operators", type=click.IntRange(min=0), default=1000, show_default=True, help="Single layers to run.")
@click.option("--networks", type=click.IntRange(min=0), default=200, show_default=True, help="Small networks to run.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of all random numbers.")
@click.option("--shard", callback=shard_of, default="0/1", show_default=True, help="Run only this part of the cases.")
@click.option("--jobs", type=click.IntRange(1, 1024), default=1, show_default=True, help="Processes at once.")
@click.option("--budget", callback=seconds_of, default="10m", show_default=True, help="Time for all of it: 90s, 10m, 1h.")
@click.option(
    "--options", multiple=True, metavar="NAME=VALUE", callback=options_of, help="An option of the backend. Repeatable."
)
@click.option(
    "--only", multiple=True, metavar="CASE", callback=cases_of, help="Run just this case, such as operator/12. Repeatable."
)
@click.option(
    "--modules", multiple=True, metavar="MODULE", help="A module with an OPERATOR for a kind of your own. Repeatable."
)
@json_option
def command(
    backend: str,
    operators: int,
    networks: int,
    seed: int,
    shard: tuple[int, int],
    jobs: int,
    budget: float,
    options: dict[str, Any],
    only: tuple[str, ...],
    modules: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run random layers and networks on the backend ID between inaccessible pages.

    Each tensor, constant and workspace lies between such pages.

    ID is that of an installed backend, or module:Class of one that is not packaged yet; ID:1 is its
    device 1, and without a number device 0 is judged.

    Each case runs twice: with the ends of its tensors at a page, then with their starts; in memory
    that held other bytes before. Found are reads and writes past an end, writes to inputs and
    constants, results that depend on memory that nobody wrote, and wrong results. The same seed and
    number make the same case. Exit code 0: nothing was found.
    """
    from dataclasses import asdict

    from ..conformance.endings import ConformanceFailure
    from ..conformance.guarded.search import Refused, Wanted, case_ids, search
    from ..rendering import say

    cases = list(only) or case_ids(operators, networks, *shard)
    wanted = Wanted(backend, cases, options, seed, modules, budget)
    try:
        searched = search(wanted, jobs=min(jobs, max(len(cases), 1)), told=lambda text: click.echo(text, err=True))
    except Refused as error:
        raise click.UsageError(error.text) from error
    except ConformanceFailure as error:
        raise click.ClickException(error.text) from error
    if as_json:
        click.echo(json.dumps({"backend": backend, "options": options, "seed": seed, **asdict(searched)}, indent=1))
    else:
        for finding in searched.findings[:_SHOWN]:
            click.echo(f"{finding.case}: {finding.text}\n  {finding.problem}")
        if len(searched.findings) > _SHOWN:
            say(f"... and {len(searched.findings) - _SHOWN} more; --json lists all")
        say(
            f"{backend}: {searched.done} cases ran, {len(searched.skipped)} could not be made, {searched.left} had no "
            f"time left, {len(searched.findings)} findings"
        )
    if searched.findings or searched.left or not searched.done:
        raise click.exceptions.Exit(1)
