"""`dovetail claims`: what a backend takes, from its manifest alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..options import json_option, model_or_demo, shape_option, value_option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dovetail.contract.claims import Claims
    from dovetail.contract.promises import Promises

    from ..coverage import Coverage
    from ..options import ModelFile


@click.command()
@click.argument("backend")
@click.option(
    "--model", type=click.Path(path_type=Path), callback=model_or_demo, help="Tell which layers of this model are taken."
)
@shape_option
@value_option
@click.option(
    "--fact",
    "facts",
    multiple=True,
    metavar="NAME=VALUE",
    help="What the device says of itself, such as half_precision=true; may be given several times.",
)
@json_option
def command(
    backend: str,
    model: ModelFile | None,
    shape: dict[str, tuple[int, ...]],
    values: dict[str, str],
    facts: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show what BACKEND, an id or the path of a manifest, takes and promises.

    Nothing of it is run, and no device is needed.

    With --model it tells which layers of a model the claims take, and why not the others.
    """
    import json

    from ..coverage import as_data, coverage_of, doubts_about, promises_as_data
    from ..rendering import remark

    manifest = _manifest(backend)
    claims = _claims(manifest, backend)
    for doubt in doubts_about(claims):
        remark(doubt, "warning", "yellow")
    promises = _promises(manifest, backend)
    if model is None:
        if as_json:
            click.echo(json.dumps({"claims": as_data(claims), **promises_as_data(promises)}, indent=2))
        else:
            _show_claims(claims)
            _show_promises(promises)
        return
    coverage = coverage_of(claims, model, shape, dict(map(_fact, facts)), promises, values)
    if as_json:
        click.echo(json.dumps([layer._asdict() for layer in coverage.layers], indent=2))
    else:
        _show_coverage(coverage, manifest["id"])


def _manifest(backend: str) -> Mapping[str, Any]:
    from dovetail import BackendError, BackendUnavailableError, ErrorCode
    from dovetail.discovery.manifest import choose, parse
    from dovetail.discovery.reasons import Refused
    from dovetail.discovery.registry import default_registry
    from dovetail.ground.close_names import STRICT, close_names

    path = Path(backend)
    if path.is_file():
        try:
            content = parse(path.read_bytes(), backend)
            first = content[0] if isinstance(content, list) and content else content
            return choose(content, first.get("id", "") if isinstance(first, dict) else "", backend)
        except Refused as error:
            raise BackendError(
                f"{backend} is no manifest that can be used: {error.text}",
                code=ErrorCode.BACKEND_CONTRACT,
                hint="give a dovetail-backend.json, or the id of a backend; a model goes behind --model",
            ) from error
    rows = {row.id: row for row in default_registry().rows()}
    if backend not in rows:
        close = close_names(backend, rows, count=1, cutoff=STRICT)
        raise BackendUnavailableError(
            f"backend {backend!r} is not installed, and there is no file of that name",
            hint=f"did you mean {close[0]}?" if close else f"name a manifest, or one of {', '.join(sorted(rows))}",
            backend=backend,
        )
    return rows[backend].manifest or {"id": backend}


def _claims(manifest: Mapping[str, Any], backend: str) -> Claims:
    from dovetail import BackendError, ErrorCode
    from dovetail.contract.claims import ClaimsError, read_claims

    if "claims" not in manifest:
        raise BackendError(
            f"the manifest of {backend!r} claims nothing",
            code=ErrorCode.BACKEND_CONTRACT,
            hint="what such a backend takes is known to its code alone: dovetail explain MODEL -b ID",
        )
    try:
        return read_claims(manifest["claims"])
    except ClaimsError as error:
        raise BackendError(
            f"in the manifest of {backend!r} {error}", code=ErrorCode.BACKEND_CONTRACT, hint="see docs/claims.md"
        ) from error


def _promises(manifest: Mapping[str, Any], backend: str) -> Promises:
    from dovetail import BackendError, ErrorCode
    from dovetail.contract.claims import ClaimsError
    from dovetail.contract.promises import read_promises

    try:
        return read_promises(manifest)
    except ClaimsError as error:
        raise BackendError(
            f"in the manifest of {backend!r} {error}", code=ErrorCode.BACKEND_CONTRACT, hint="see docs/promises.md"
        ) from error


def _fact(text: str) -> tuple[str, str | int | float | bool]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--fact")
    if value in ("true", "false"):
        return name, value == "true"
    for number in (int, float):
        try:
            return name, number(value)
        except ValueError:
            continue
    return name, value


def _show_claims(claims: Claims) -> None:
    from ..coverage import dtypes_text
    from ..rendering import say

    for kind, several in claims.items():
        click.echo(click.style(kind, bold=True))
        for claim in several:
            click.echo(f"  {dtypes_text(claim)}")
            for condition in claim.where:
                say(f"    {condition}", indent=6)


def _show_promises(promises: Promises) -> None:
    from dovetail.contract.promises import STANDARDS

    from ..coverage import dtypes_text
    from ..rendering import say

    if promises.bit_exact:
        click.echo(click.style("promised to the bit", bold=True))
    for kind, several in promises.bit_exact.items():
        for one in several:
            where = "".join(f"; {condition}" for condition in one.scope.where)
            say(f"  {kind} of {dtypes_text(one.scope)}{where}: {STANDARDS[one.standard]}")
    if promises.deviations:
        click.echo(click.style("known deviations", bold=True, fg="magenta"))
    for known in promises.deviations:
        where = "".join(f"; {condition}" for condition in known.scope.where)
        say(f"  {known.kind} of {dtypes_text(known.scope)}{where}: {known}")


def _show_coverage(coverage: Coverage, id: str) -> None:
    from ..rendering import show, table

    rows = [(layer.name, layer.kind, "yes" if layer.taken else layer.code, layer.reason) for layer in coverage.layers]
    show(table(["layer", "kind", "taken", "why not"], rows, long=("layer",)))
    for layer in coverage.layers:
        for known in layer.deviations:
            click.echo(f"{click.style('deviates', fg='magenta')} {layer.name}: {known}")
    taken = sum(layer.taken for layer in coverage.layers)
    click.echo(f"{id} takes {taken} of {len(coverage.layers)} layers by its claims")
    if coverage.assumed:
        click.echo(f"assumed for open sizes: {', '.join(f'{name} = {size}' for name, size in coverage.assumed.items())}")
