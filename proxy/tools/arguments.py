"""The arguments and options of `kafka-wiretap wire` as values: the functions are click's types.

Errors: click.BadParameter, in a sentence. A name that Kafka no longer uses gets a note on standard error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from proxy.terminal import echo
from proxy.tools import names
from proxy.wire.apis import MessageKind
from proxy.wire.dialects import Dialect
from proxy.wire.kafka07 import RequestType

Found = TypeVar("Found")

# the "version" of the dialect that has no versions; metrics use it too
VERSION_07 = "0.7"
WANTED_07 = "an API of Kafka 0.7 is called 0.7/fetch, and its version is 0.7"


def api(value: str | int) -> int | RequestType:
    """An api by its name or its key; an api of Kafka 0.7 by its name, such as 0.7/fetch."""
    found = names.api_of_07(str(value))
    return api_key(str(value)) if found is None else found


def api_key(value: str) -> int:
    """An api of today's dialect by its name or its key."""
    return named(names.api_key, value)


def api_or_embedded(value: str) -> tuple[int | str | RequestType, MessageKind | None]:
    """An api, or the name of a message inside messages; and the kind of message that the name ends with, if any."""
    found = names.api_of_07(value)
    return (named(names.api_or_embedded, value) if found is None else found), names.kind(value)


def inside(value: str) -> str:
    """The name of a message inside messages."""
    found, _ = api_or_embedded(value)
    if not isinstance(found, str):
        raise click.BadParameter(f"{value} is an API: what stands in frames needs no name")
    return found


def error(value: str | int) -> int:
    """An error by its name or its code."""
    return named(names.error_code, str(value))


def named(find: Callable[[str], Found], value: str) -> Found:
    """The value that `find` gives for the name; a former name gets a note."""
    try:
        found = find(value)
    except names.UnknownName as unknown:
        raise click.BadParameter(str(unknown)) from unknown
    context = click.get_current_context(silent=True)
    # no note while a shell completes the next word
    if (note := names.note(value)) and not (context and context.resilient_parsing):
        echo(f"note: {note}", err=True)
    return found


def version(value: str | int) -> int | Dialect:
    """An api's version; the dialect for 0.7, which has no versions."""
    if value == VERSION_07:
        return Dialect.KAFKA_07
    try:
        return int(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a valid integer.") from None


def octets(value: str) -> bytes:
    """The bytes that are given as hex."""
    from proxy.tools import frames

    try:
        return frames.octets(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
