"""Command-line options that select what a capture holds, one for each setting of `SelectionSettings`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from proxy.command_line import text
from proxy.option_types import of_kind, placeholder
from proxy.schema.keys import KeyedField, keys_of
from proxy.schema.toml import plain
from recorder.capture.selection import SelectionSettings

# the names of the fields that have an option
SETTINGS = tuple(field.name for field in keys_of(SelectionSettings).values())

Command = Callable[..., None]


def _entries(_context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[Any, Any] | None:
    """The entries of texts "PATTERN=VALUE" of an option for a key with entries. Errors: BadParameter."""
    key = next(field.key for field in keys_of(SelectionSettings).values() if field.name == option.name)
    assert key.name_kind is not None
    read = {}
    for written in texts:
        name, equals, value = (part.strip() for part in written.partition("="))
        try:
            if not equals:
                raise ValueError("has no '='")
            read[key.name_kind.read(name)] = key.kind.read(value)
        except ValueError as error:
            right = f"{option.opts[0]} '{key.entry[0]}={plain(key.example)}'"
            raise click.BadParameter(f"{written!r} {error}; right would be {right}") from None
    return read or None


def _option_of_entries(field: KeyedField) -> Callable[[Any], Any]:
    """The option of a key with entries: --topic-records for topics.PATTERN.records."""
    key = field.key
    assert key.name_kind is not None
    flag = "--" + field.name.replace("_", "-")
    metavar = f"{key.name_kind.metavar}={placeholder(key.kind)}"
    told = f"{key.text} Repeatable."
    return click.option(flag, field.name, type=text, callback=_entries, multiple=True, metavar=metavar, help=told)


def _option_of(field: KeyedField) -> Callable[[Any], Any]:
    """The option that sets a key of the recording: --only-apis for only.apis."""
    key = field.key
    flag = "--" + "-".join(key.place).replace("_", "-")
    right = plain(key.example)
    return click.option(flag, field.name, type=of_kind(key.kind, right), help=key.text)


def selecting(*names: str) -> Callable[[Command], Command]:
    """Adds an option for each of these fields. Those that are not given are None."""

    def decorate(command: Command) -> Command:
        for field in reversed(keys_of(SelectionSettings).values()):
            if field.name in names:
                command = (_option_of if field.key.name_kind is None else _option_of_entries)(field)(command)
        return command

    return decorate
