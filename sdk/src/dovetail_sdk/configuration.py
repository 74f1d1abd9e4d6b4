"""Defaults of options, from the table `command_line` of the user's `config.toml`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click

TABLE = "command_line"
COMMON = frozenset({"backends", "threads", "isolate", "option", "limit", "timeout"})
"""Options that may stand in the table itself: each command that has one takes it from there."""


def table() -> Mapping[str, Any]:
    """Return the table; empty without one.

    Raises:
        click.UsageError: It is something else.
    """
    from dovetail.ground.settings import configuration

    found = configuration().get(TABLE, {})
    if not isinstance(found, dict):
        raise _wrong(f"{TABLE} is {found!r}, but a table [{TABLE}] is expected")
    return found


def defaults(group: click.Group, context: click.Context, command: str) -> dict[str, Any]:
    """Return the defaults of a command's options, by name of the parameter.

    Args:
        group: All commands.
        context: Of the group.
        command: The one that is about to run: others are not imported.

    Raises:
        click.UsageError: The table names no option of the command, or a value that is none for it.
    """
    read = table()
    if not read:
        return {}
    commands = group.list_commands(context)
    for name, value in read.items():
        if isinstance(value, dict) and name not in commands:
            raise _wrong(f"there is no command {name!r}", name, commands)
        if not isinstance(value, dict) and name not in COMMON:
            raise _wrong(f"{name!r} is no option that several commands have", name, COMMON)
    found = group.get_command(context, command)
    if found is None:
        return {}
    options = _options(found.params)
    own = read.get(command, {})
    for name in own:
        if name not in options:
            raise _wrong(f"`dovetail {command}` has no option {name!r}", name, options)
    shared = {name: value for name, value in read.items() if not isinstance(value, dict) and name in options}
    return {options[name].name or "": _value(options[name], name, value) for name, value in {**shared, **own}.items()}


def _options(parameters: Iterable[click.Parameter]) -> dict[str, click.Option]:
    """Return options by their long name, as the command line has it but for its dashes."""
    named = {flag: one for one in parameters if isinstance(one, click.Option) for flag in one.opts if flag.startswith("--")}
    return {flag.removeprefix("--"): one for flag, one in named.items()}


def _value(option: click.Option, name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        raise _wrong(f"{name} is a table, but one value or a list is expected")
    if option.multiple:
        return [str(one) for one in value] if isinstance(value, list) else [str(value)]
    if isinstance(value, list):
        raise _wrong(f"{name} is a list, but `--{name}` takes one value")
    if option.is_flag is not isinstance(value, bool):
        raise _wrong(f"{name} is {value!r}, but {'true or false' if option.is_flag else 'a text or a number'} is expected")
    try:
        return option.type_cast_value(click.Context(click.Command(name)), value if isinstance(value, bool) else str(value))
    except click.BadParameter as error:
        raise _wrong(f"{name} is {value!r}: {error.message}") from None


def _wrong(what: str, name: str = "", known: Iterable[str] = ()) -> click.UsageError:
    from dovetail.ground.close_names import suggestion
    from dovetail.ground.settings import configuration_path

    hint = f"; {suggestion(name, sorted(known))}" if name else ""
    return click.UsageError(f"{configuration_path()}, table [{TABLE}]: {what}{hint}")
