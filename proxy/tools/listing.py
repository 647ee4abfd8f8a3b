"""The catalog as tables: apis with their versions, requests of Kafka 0.7, messages inside messages, error codes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from proxy.wire import apis
from proxy.wire.catalog import may_hold_secrets
from proxy.wire.embedded.schemas import files
from proxy.wire.error_codes import ERRORS, kafka_error
from proxy.wire.error_messages import error_message
from proxy.wire.kafka07 import RequestType
from proxy.wire.language import OPEN_END, Message

TITLES = ("key", "api", "versions", "flexible", "holds secrets")
TITLES_07 = ("type", "api of Kafka 0.7", "answered")
ERROR_TITLES = ("code", "error", "retriable", "what Kafka says")
EMBEDDED_TITLES = ("message inside messages", "versions", "flexible", "where")
# the file of an embedded message -> where such messages stand
PLACES = {
    "broker_files": "files in a broker's folders",
    "assignors": "user data of subscriptions",
    "connect": "groups of Connect workers",
    "consumer_protocol": "groups of consumers",
    "control_records": "control batches",
    "principal": "forwarded requests",
}


class Listed(NamedTuple):
    """A row for one api. Versions as people write them: "0-13", "9+", "never"."""

    key: int
    name: str
    versions: str
    flexible: str
    secrets: str  # the messages with values that are never recorded: "request", "response", "request, response" or ""


def listed() -> list[Listed]:
    """All apis, ascending by key."""
    return [_listed(key) for key in apis.api_keys()]


def _listed(key: int) -> Listed:
    api = apis.api(key)
    assert api is not None
    secret = ", ".join(kind for kind in apis.KINDS if may_hold_secrets(kind, key))
    return Listed(key, api.name, span(api.request.versions), flexible(api.request), secret)


def embedded_rows() -> list[tuple[str, str, str, str]]:
    """(name, versions, flexible, where) of all messages inside messages."""
    return [
        (found.name, span(found.versions), flexible(found), PLACES.get(file, f"the topic __{file}"))
        for file, messages in files().items()
        for found in messages
    ]


def rows_07() -> list[tuple[int, str, str]]:
    """(type, name, "yes" or "never" for its response) of the requests of 0.7, which has no versions."""
    return [(int(asked), asked.api, "yes" if asked.awaits_response else "never") for asked in RequestType]


def error_rows(codes: Sequence[int]) -> list[tuple[int, str, str, str]]:
    """(code, name, "yes" if retriable, Kafka's text) of these errors; of all errors if `codes` is empty."""
    found = [kafka_error(code) for code in codes or ERRORS]
    return [(one.code, one.name, "yes" if one.retriable else "", error_message(one.code)) for one in found]


def errors_json(codes: Sequence[int]) -> list[dict[str, Any]]:
    """The rows of `error_rows` as objects."""
    return [
        {"code": one.code, "name": one.name, "retriable": one.retriable, "message": error_message(one.code)}
        for one in map(kafka_error, codes or ERRORS)
    ]


def span(versions: range) -> str:
    """A range of versions as the message language writes it."""
    if versions.stop >= OPEN_END:
        return f"{versions.start}+"
    return f"{versions.start}" if len(versions) == 1 else f"{versions.start}-{versions.stop - 1}"


def flexible(message: Message) -> str:
    """The flexible versions of a message as people write them: "9+" or "never"."""
    first = max(message.flexible.start, message.versions.start)
    return f"{first}+" if first in message.flexible and first in message.versions else "never"


def as_json() -> dict[str, Any]:
    """The catalog as one object, with first and last versions as numbers.

    `apis`: an object for each api. `kafka_07`: the requests of Kafka 0.7. `embedded`: the messages inside messages.
    """
    inside = [found for messages in files().values() for found in messages]
    return {
        "apis": _apis_json(),
        "kafka_07": [
            {"type": int(asked), "name": asked.api, "answered": asked.awaits_response} for asked in RequestType
        ],
        "embedded": [{"name": one.name, "first": one.versions[0], "last": one.versions[-1]} for one in inside],
    }


def _apis_json() -> list[dict[str, Any]]:
    return [
        {"key": row.key, "name": row.name, "first": known.start, "last": known.stop - 1}
        | {"first_flexible": next((version for version in known if apis.is_flexible(row.key, version)), None)}
        for row in listed()
        for known in [apis.versions(row.key)]
    ]


def as_lines(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """Lines with aligned columns; columns of numbers are aligned to the right. Needs at least one row."""
    lines = [list(map(str, titles)), *(list(map(str, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    right = [all(isinstance(cell, int) for cell in column) for column in zip(*rows, strict=True)]
    for line in lines:
        aligned = zip(line, widths, right, strict=True)
        cells = (cell.rjust(width) if to_right else cell.ljust(width) for cell, width, to_right in aligned)
        yield "  ".join(cells).rstrip()


def as_markdown(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """A table in Markdown."""
    yield f"| {' | '.join(titles)} |"
    yield f"|{'---|' * len(titles)}"
    for row in rows:
        yield f"| {' | '.join(map(str, row))} |"
