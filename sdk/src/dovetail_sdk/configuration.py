"""The configuration file of the command line: defaults of options, for all commands or for one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

VARIABLE = "DOVETAIL_CONFIG"
"""Environment variable that names another file; empty for none."""


def configuration_file() -> Path | None:
    """Return the file that is read, or None: without one, or where the variable is empty.

    Raises:
        click.UsageError: The file that the variable names is not there.
    """
    named = os.environ.get(VARIABLE)
    if named is not None:
        if named and not Path(named).is_file():
            raise click.UsageError(f"{VARIABLE} names {named!r}, which is no file")
        return Path(named) if named else None
    home = os.environ.get("XDG_CONFIG_HOME", "")
    folder = Path(home) if os.path.isabs(home) else Path(os.path.expanduser("~")) / ".config"
    file = folder / "dovetail" / "config.toml"
    return file if file.is_file() else None


def defaults(group: click.Group, context: click.Context, command: str) -> dict[str, Any]:
    """Return the defaults of a command's options, by name of the parameter.

    Args:
        group: All commands.
        context: Of the group.
        command: The one that is about to run: others are not imported.

    Raises:
        click.UsageError: The file is not TOML, or names no option of the command.
    """
    file = configuration_file()
    if file is None:
        return {}
    import tomllib

    try:
        read = tomllib.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise click.UsageError(f"configuration {str(file)!r} cannot be read: {error}") from error
    commands = group.list_commands(context)
    for name, value in read.items():
        if isinstance(value, dict) and name not in commands:
            raise _wrong(file, f"there is no command {name!r}", name, commands)
    found = group.get_command(context, command)
    if found is None:
        return {}
    options = _options(found.params)
    own = read.get(command, {})
    if not isinstance(own, dict):
        raise click.UsageError(
            f"configuration {str(file)!r}: {command!r} is a command, whose options stand in a table [{command}]"
        )
    for name in own:
        if name not in options:
            raise _wrong(file, f"`dovetail {command}` has no option {name!r}", name, options)
    shared = {name: value for name, value in read.items() if not isinstance(value, dict)}
    for name in shared.keys() - COMMON:
        raise _wrong(file, f"{name!r} is no option that several commands have", name, COMMON)
    wanted = {name: value for name, value in shared.items() if name in options} | own
    return {options[name].name or "": _value(file, options[name], name, value) for name, value in wanted.items()}


COMMON = frozenset({"backends", "threads", "isolate", "option", "limit", "timeout"})
"""Options that may stand outside of a table: each command that has one takes it from there."""


def _options(parameters: Iterable[click.Parameter]) -> dict[str, click.Option]:
    """Return options by their long name, as the command line has it but for its dashes."""
    named = {flag: one for one in parameters if isinstance(one, click.Option) for flag in one.opts if flag.startswith("--")}
    return {flag.removeprefix("--"): one for flag, one in named.items()}


def _value(file: Path, option: click.Option, name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        raise click.UsageError(f"configuration {str(file)!r}: {name} is a table, but one value or a list is expected")
    if isinstance(value, list) != option.multiple:
        value = [value] if option.multiple else value
    if isinstance(value, list) and not option.multiple:
        raise click.UsageError(f"configuration {str(file)!r}: {name} is a list, but `--{name}` takes one value")
    if option.is_flag and not isinstance(value, bool):
        raise click.UsageError(f"configuration {str(file)!r}: {name} is {value!r}, but true or false is expected")
    try:
        context = click.Context(click.Command(name))
        return [str(one) for one in value] if option.multiple else option.type_cast_value(context, _text(value))
    except click.BadParameter as error:
        raise click.UsageError(f"configuration {str(file)!r}: {name} is {value!r}: {error.message}") from None


def _text(value: Any) -> Any:
    return value if isinstance(value, bool) else str(value)


def _wrong(file: Path, what: str, name: str, known: Iterable[str]) -> click.UsageError:
    from dovetail.ground.close_names import suggestion

    return click.UsageError(f"configuration {str(file)!r}: {what}; {suggestion(name, sorted(known))}")
