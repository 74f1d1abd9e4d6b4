"""`dovetail lock`: record what backends consist of, so that nothing else loads in their name."""

from __future__ import annotations

from pathlib import Path

import click

from ..options import in_folder, paths_option


@click.command()
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option(
    "-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), callback=in_folder, help="File to write."
)
@paths_option
def command(ids: tuple[str, ...], output: Path, paths: tuple[str, ...]) -> None:
    """Write the SHA-256 of every file of backends, by default all that are ready.

    DOVETAIL_LOCK=FILE, or `lock` in config.toml, then refuses them when a file differs, is missing
    or is new.
    """
    import json

    from dovetail import backends
    from dovetail.discovery.content import files_of
    from dovetail.discovery.reasons import Refused
    from dovetail.discovery.registry import default_registry

    from ..rendering import remark

    rows = backends(paths=paths)
    names = ids or tuple(row.id for row in rows if row.state.is_ready)
    found = {one.id: one for one in default_registry().candidates()}
    unknown = [id for id in names if id not in found]
    if unknown:
        raise click.UsageError(f"there is no backend {unknown[0]}; there are {', '.join(sorted(found)) or 'none'}")
    content = {}
    for id in names:
        try:
            content[id] = files_of(found[id]).digests()
        except Refused as refusal:
            if ids:
                raise click.ClickException(f"{id} cannot be locked: {refusal.text}") from refusal
            remark(f"{id} is left out: {refusal.text}")
    output.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    count = sum(map(len, content.values()))
    click.echo(f"{output}: {len(content)} backends, {count} files; it is heeded where DOVETAIL_LOCK={output.absolute()} is set")
