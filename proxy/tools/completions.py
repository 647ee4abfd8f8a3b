"""A shell's completions for `kafka-wiretap wire`: names, versions and fields that begin with the typed letters.

The arguments before have been parsed by then, as far as possible. Completion reports no errors in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click
from click.shell_completion import CompletionItem

from proxy.command_line import beginning_with
from proxy.tools import names
from proxy.wire import apis, embedded
from proxy.wire.apis import KINDS
from proxy.wire.error_codes import ERRORS
from proxy.wire.language import Field, Message

Items = list[CompletionItem]


def name(_context: click.Context, _param: click.Parameter, begun: str) -> Items:
    """An api, or a message inside messages."""
    return beginning_with(begun, names.every_name())


def error(_context: click.Context, _param: click.Parameter, begun: str) -> Items:
    """An error by its name."""
    return beginning_with(begun, (one.name for one in ERRORS.values()))


def message_inside(_context: click.Context, _param: click.Parameter, begun: str) -> Items:
    """A message inside messages."""
    return beginning_with(begun, embedded.names())


def version(context: click.Context, _param: click.Parameter, begun: str) -> Items:
    """The versions of the named api or message, the newest first."""
    named = _named(context)
    known: Sequence[int] = ()
    if isinstance(named, int):
        known = apis.versions(named)
    elif isinstance(named, str):
        known = embedded.versions(named)
    return beginning_with(begun, (str(one) for one in reversed(known)))


def path(context: click.Context, _param: click.Parameter, begun: str) -> Items:
    """The paths of all fields of the named api or message, in any of its versions."""
    named = _named(context)
    found: Sequence[Message | None] = ()
    if isinstance(named, int):
        found = [apis.message(kind, named) for kind in KINDS]
    elif isinstance(named, str):
        found = [embedded.message(named)]
    return beginning_with(begun, dict.fromkeys(one for message in found if message for one in _paths(message.fields)))


def _named(context: click.Context) -> object:
    # click does not parse the arguments while an option has no value yet; they are in `args` as they were typed
    named = context.params.get("named")
    if named is None and context.args:
        try:
            return names.api_or_embedded(context.args[0])
        except names.UnknownName:
            return None
    return named[0] if named else None


def _paths(fields: Sequence[Field], before: str = "") -> Iterator[str]:
    for field in fields:
        yield before + field.name
        yield from _paths(field.fields, f"{before}{field.name}.")
