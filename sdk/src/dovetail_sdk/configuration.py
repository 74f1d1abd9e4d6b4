"""Defaults of options, from the table `command_line` of the user's `config.toml`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import click

TABLE = "command_line"
KEYS = frozenset({"backend_path", "trusted_path", "lock", TABLE})
"""What stands in the file itself."""
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


def problems(group: click.Group, context: click.Context) -> list[str]:
    """Say all that is wrong in the user's `config.toml`; empty if nothing is, or there is none.

    Args:
        group: All commands, which are imported.
        context: Of the group.
    """
    from dovetail.ground.settings import configuration, configuration_problems

    found = configuration_problems()
    found += [_wrong_key(key).message for key in configuration() if key not in KEYS]
    try:
        read = table()
    except click.UsageError as error:
        return [*found, error.message]
    names = group.list_commands(context)
    found += [error.message for error in _wrong_names(read, names)]
    for name in names:
        command = group.get_command(context, name)
        if command is not None:
            found += [one.message for one in _given(read, name, command.params).values() if isinstance(one, click.UsageError)]
    return [*dict.fromkeys(found)]


def right_ones(group: click.Group, context: click.Context) -> dict[str, Any]:
    """Return what is right in the table, by option, and by option below each command.

    Args:
        group: All commands, which are imported.
        context: Of the group.
    """
    try:
        read = table()
    except click.UsageError:
        return {}
    commands = {name: group.get_command(context, name) for name in group.list_commands(context)}

    def is_right(entry: Mapping[str, Any]) -> bool:
        given = [_given(entry, name, one.params) for name, one in commands.items() if one is not None]
        return not any(isinstance(value, click.UsageError) for values in given for value in values.values())

    found: dict[str, Any] = {}
    for name, value in read.items():
        if isinstance(value, dict) and name in commands:
            own = {option: one for option, one in value.items() if is_right({name: {option: one}})}
            found |= {name: own} if own else {}
        elif name in COMMON and not isinstance(value, dict) and is_right({name: value}):
            found[name] = value
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
    for error in _wrong_names(read, group.list_commands(context)):
        raise error
    found = group.get_command(context, command)
    values = {} if found is None else _given(read, command, found.params)
    for value in values.values():
        if isinstance(value, click.UsageError):
            raise value
    return values


def _wrong_names(read: Mapping[str, Any], commands: Sequence[str]) -> Iterator[click.UsageError]:
    """Find what stands in the table itself and is no command, nor an option of several."""
    for name, value in read.items():
        if isinstance(value, dict) and name not in commands:
            yield _wrong(f"there is no command {name!r}", name, commands)
        if not isinstance(value, dict) and name not in COMMON:
            yield _wrong(f"{name!r} is no option that several commands have", name, COMMON)


def _given(read: Mapping[str, Any], command: str, parameters: Iterable[click.Parameter]) -> dict[str, Any]:
    """Return a command's values by name of the parameter, or of some what is wrong with them."""
    options = _options(parameters)
    own = read.get(command, {})
    own = own if isinstance(own, dict) else {}  # else it is a wrong name
    shared = {name: value for name, value in read.items() if not isinstance(value, dict) and name in options}
    found: dict[str, Any] = {}
    for name, value in {**shared, **own}.items():
        if name not in options:
            found[name] = _wrong(f"`dovetail {command}` has no option {name!r}", name, options)
            continue
        try:
            found[options[name].name or ""] = _value(options[name], name, value)
        except click.UsageError as error:
            found[options[name].name or ""] = error
    return found


def _options(parameters: Iterable[click.Parameter]) -> dict[str, click.Option]:
    """Return options by their long name, as the command line has it but for its dashes."""
    named = {flag: one for one in parameters if isinstance(one, click.Option) for flag in one.opts if flag.startswith("--")}
    return {flag.removeprefix("--"): one for flag, one in named.items()}


def _value(option: click.Option, name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        raise _wrong(f"{name} is a table, but one value or a list is expected")
    if isinstance(value, list) and not option.multiple:
        raise _wrong(f"{name} is a list, but `--{name}` takes one value")
    if not option.multiple and option.is_flag is not isinstance(value, bool):
        raise _wrong(f"{name} is {value!r}, but {'true or false' if option.is_flag else 'a text or a number'} is expected")
    given: Any = value if isinstance(value, bool) else str(value)
    if option.multiple:
        given = [str(one) for one in (value if isinstance(value, list) else [value])]
    context = click.Context(click.Command(name))
    try:
        option.process_value(context, given)
        return given if option.multiple else option.type_cast_value(context, given)
    except click.BadParameter as error:
        raise _wrong(f"{name} is {value!r}: {error.message}") from None


def _wrong_key(key: str) -> click.UsageError:
    from dovetail.ground.close_names import suggestion
    from dovetail.ground.settings import configuration_path

    return click.UsageError(f"{configuration_path()}: there is no setting {key!r}; {suggestion(key, sorted(KEYS))}")


def _wrong(what: str, name: str = "", known: Iterable[str] = ()) -> click.UsageError:
    from dovetail.ground.close_names import suggestion
    from dovetail.ground.settings import configuration_path

    hint = f"; {suggestion(name, sorted(known))}" if name else ""
    return click.UsageError(f"{configuration_path()}, table [{TABLE}]: {what}{hint}")
