"""Reads error codes, throttle times and the ends of long polls from answers, for `tables.answers`.

`fixed` lists the answers whose only error code has a fixed offset, such as Heartbeat's: Spark's own expressions read
those. The decoder here reads all other answers with error codes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from proxy.wire import apis, keys
from proxy.wire.budget import Budget
from proxy.wire.dialects import Dialect
from proxy.wire.error_reader import Places, apis_with_errors, error_paths, error_reader, throttle_ms
from proxy.wire.long_polls import Wait, has_more, readers_end, shown
from recorder.facts.frame import RESPONSE, Frame, Values
from recorder.facts.response_errors import ResponseErrors, response_errors
from recorder.facts.rows import Decoder, FrameSelector, Group
from recorder.facts.schema import Column
from recorder.facts.topics import Place

if TYPE_CHECKING:
    from recorder.facts.plain_messages import PlainMessages

# The columns of an answer's row in `frames` that its exchange needs.
HEADS = (
    Column("session", "string", "the capture's session"),
    Column("cluster", "string", "the cluster's name in the settings"),
    Column("connection", "bigint", "number within the session"),
    Column("exchange", "bigint", "number of the request on its connection"),
    Column("node", "int", "the broker's node id; null while unknown"),
    Column("listener", "string", "the local address that the client dialled"),
    Column("client", "string", "the client's address and port"),
    Column("principal", "string", "who was logged in"),
    Column("dialect", "string", "`kafka` or `kafka-0.7`"),
    Column("made_by", "string", "`broker` or `proxy`"),
    Column("api_key", "smallint", "the api's key"),
    Column("api", "string", "its name"),
    Column("api_version", "smallint", "the request's version"),
    Column("correlation_id", "int", "links the request and its answer, as on the wire"),
    Column("client_id", "string", "as the request says"),
    Column("at", "timestamp", "last byte of the answer arrived"),
    Column("at_ns", "bigint", "the same in ns"),
    Column("size", "int", "of the answer, in bytes"),
    Column("request_size", "int", "of the request, in bytes"),
    Column("latency_ns", "bigint", "from the request's last byte to the answer's first byte"),
    Column("queued_ns", "bigint", "of that, behind earlier requests"),
    Column("transfer_ns", "bigint", "from the answer's first byte to its last"),
)


@cache
def fixed() -> dict[tuple[int, int], Places]:
    """The answers whose only error code has a fixed offset, and their throttle time if any, by api key and version."""
    readers = {(key, version): error_reader(key, version) for key in apis.api_keys() for version in apis.versions(key)}
    return {
        one: found.places
        for one, found in readers.items()
        if found and found.places.code is not None and (found.places.throttle is not None) == _has_throttle(*one)
    }


def _has_throttle(key: int, version: int) -> bool:
    message = apis.message(RESPONSE, key)
    fields = message.fields if message else ()
    return any(field.name == "throttle_time_ms" and version in field.versions for field in fields)


@cache
def selectors() -> tuple[FrameSelector, ...]:
    """The answers that the decoder reads: those with error codes, except `fixed` ones."""
    rest: dict[tuple[int, ...], list[int]] = {}
    for key in apis.api_keys():
        versions = tuple(one for one in apis.versions(key) if error_paths(key, one) and (key, one) not in fixed())
        if versions:
            rest.setdefault(versions, []).append(key)
    kafka = tuple(FrameSelector(RESPONSE, tuple(some), versions=versions) for versions, some in rest.items())
    return (*kafka, FrameSelector(RESPONSE, tuple(apis_with_errors(Dialect.KAFKA_07)), Dialect.KAFKA_07.value))


def read_answer(frame: Frame, budget: Budget) -> Iterator[Group]:
    """Yields the single row of an answer."""
    found = _found(frame, budget)
    throttle = None
    if found.unread is None:
        throttle = throttle_ms(frame.data, frame.api_key, frame.api_version, dialect=frame.dialect)
    yield Group((), [(*_codes_and_wait(found), throttle)], found.unread and found.unread.value)


def read_values(frame: Frame, values: Values, found: Iterable[Place]) -> tuple[list[int], str | None, int | None]:
    """As the row of `read_answer`, of an answer to Produce or Fetch that is opened anyway.

    Errors: WireError in a Fetch's batches.
    """
    codes = [code for code in (values.get("error_code"), *(place.code for place in found)) if code]
    if frame.api_key == keys.PRODUCE:
        return codes, None, values.get("throttle_time_ms")
    filled = [place for place in found if place.records]
    wait = shown(map(_has_more, filled), bool(codes), bool(filled))
    return codes, wait.value, values.get("throttle_time_ms")


def _has_more(place: Place) -> bool:
    """True if the log has more than the partition's records. Errors: WireError."""
    values, (found, error) = place.values, place.batches
    if error:
        raise error
    end = readers_end(
        values["high_watermark"], values.get("last_stable_offset", -1), values.get("aborted_transactions")
    )
    return has_more(found, len(place.records), end)


def waits(messages: PlainMessages) -> Any:
    """The column `wait` of many plain answers to Produce or Fetch: as `read_values` tells of a single one."""
    if messages.api_key == keys.PRODUCE:
        return None
    return messages.chosen(
        (messages.has_more, Wait.FULL.value), (messages.has_records, Wait.TAIL.value), otherwise=Wait.EMPTY.value
    )


def read_codes(frame: Frame, budget: Budget) -> Iterator[Group]:
    """Yields the row without its throttle time, which may cost a second pass over the answer."""
    found = _found(frame, budget)
    yield Group((), [_codes_and_wait(found)], found.unread and found.unread.value)


def _found(frame: Frame, budget: Budget) -> ResponseErrors:
    return response_errors(
        frame.data,
        dialect=frame.dialect,
        api_key=frame.api_key,
        api_version=frame.api_version,
        masked_from=frame.masked_from,
        is_cut=frame.is_cut,
        budget=budget,
    )


def _codes_and_wait(found: ResponseErrors) -> tuple[list[int] | None, str | None]:
    return found.codes if found.unread is None else None, found.wait and found.wait.value


_OWN = (
    Column("error_codes", "array<smallint>", "each code other than 0, as often as it occurs; null: unknown"),
    Column("wait", "string", "how a long poll ended"),
    Column("throttle_ms", "int", "how long the client is to wait for a quota"),
)


@cache
def answers(wanted: frozenset[str] | None = None) -> Decoder:
    """The decoder of answers. The first call makes it, because that looks at the schema of every message.

    `wanted`: the names of the columns that the table must have; None: all.
    """
    frame_columns = tuple(column for column in HEADS if wanted is None or column.name in wanted)
    has_throttle = wanted is None or "throttle_ms" in wanted
    own, read_one = (_OWN, read_answer) if has_throttle else (_OWN[:-1], read_codes)
    return Decoder("answers", "an answer with error codes", selectors(), (), own, read_one, frame_columns)
