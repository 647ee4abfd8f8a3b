"""Tests of finding secrets in a frame, against decoding and projecting it."""

import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from proxy.wire import apis, catalog
from proxy.wire.apis import MessageKind
from proxy.wire.compile.searcher import FLAG, NAME, SECRET, SENSITIVE
from proxy.wire.errors import Malformed, Truncated, WireError
from proxy.wire.framing import framed
from proxy.wire.headers import request_head, response_head
from proxy.wire.keys import ALTER_CONFIGS, CREATE_TOPICS, DESCRIBE_CONFIGS, SASL_AUTHENTICATE
from proxy.wire.language import Field
from proxy.wire.plain_settings import PLAIN_SETTINGS, may_be_secret
from tests.strategies import EVERY_MESSAGE, must_codec, values_of, without_unknown_tags
from tests.tables import each_row

Message = tuple[MessageKind, int, int]
Spans = list[tuple[int, int]]

WITH_SECRETS = [message for message in EVERY_MESSAGE if catalog.secrets(*message)]


def spelled(message: Message) -> str:
    return f"{apis.api_name(message[1])}-{message[0]}-{message[2]}"


with_secrets = each_row("message", WITH_SECRETS, ids=spelled)
WITH_TAGS = [message for message in WITH_SECRETS if apis.is_flexible(*message[1:])]
with_tags = each_row("message", WITH_TAGS, ids=spelled)


def named(values: Any, rng: random.Random) -> Any:
    """Returns the values with settings that have known and unknown names."""
    if isinstance(values, list):
        return [named(one, rng) for one in values]
    if not isinstance(values, dict):
        return values
    found = {name: named(value, rng) for name, value in values.items()}
    if "value" in found:
        found[NAME] = rng.choice(["cleanup.policy", "log.retention.ms", "ssl.key.password", "x" * 200, ""])
    return found


def frame_of(message: Message, values: dict[str, Any]) -> bytes:
    kind, key, version = message
    if kind == "request":
        return framed(catalog.encode_request(key, version, 7, "client", values))
    return framed(catalog.encode_response(key, version, 7, values))


def searched(message: Message, frame: bytes, size: int = 1 << 20) -> Spans:
    search = must_codec(*message).search()
    for at in range(0, len(frame), size):
        search.feed(frame[at : at + size])
    return search.found()


def projected(message: Message, frame: bytes, values: dict[str, Any]) -> Spans:
    """The slow, obvious twin: every marked value of the whole frame, with the values around it."""
    kind, key, version = message
    codec, body = must_codec(*message), frame[4:]
    head = request_head(body) if kind == "request" else response_head(body, key, version)
    found = []
    for path in catalog.secrets(*message):
        places = codec.project((path,))(body, head.body)[path]
        verdicts = list(_hidden(values, codec.message.fields, path.split("."), version))
        assert len(verdicts) == len(places)
        for (value, _, stop), hides in zip(places, verdicts, strict=True):
            size = len(value.encode() if isinstance(value, str) else value or b"")
            found += [(4 + stop - size, 4 + stop)] * (hides and size > 0)
    return sorted(found)


def _hidden(
    values: dict[str, Any], fields: tuple[Field, ...], path: list[str], version: int, sensitive: bool | None = None
) -> Iterator[bool]:
    """Yields for each value at the path, in wire order, whether it is hidden."""
    (field,) = [one for one in fields if one.name == path[0] and version in one.versions]
    if FLAG in values:
        sensitive = values[FLAG]
    if len(path) > 1:
        for inner in values[path[0]] or []:
            yield from _hidden(inner, field.fields, path[1:], version, sensitive)
    elif SECRET in field.marks:
        yield True
    else:
        assert SENSITIVE in field.marks
        yield may_be_secret(values[NAME], sensitive)


@with_secrets
def test_the_search_finds_the_marked_secrets_for_any_cuts(message: Message) -> None:
    for seed in range(6):
        values = named(without_unknown_tags(values_of(must_codec(*message), seed)), random.Random(seed))
        frame = frame_of(message, values)
        found = projected(message, frame, values)
        assert searched(message, frame) == found
        for size in (1, 2, 3, 7, 100):
            assert searched(message, frame, size) == found


@with_secrets
def test_a_frame_that_is_not_whole_tells_nothing(message: Message) -> None:
    frame = frame_of(message, without_unknown_tags(values_of(must_codec(*message), 1)))
    for size in (len(frame) - 1, len(frame) // 2):
        with pytest.raises(Truncated):
            searched(message, frame[:size])


@with_secrets
@each_row("size", [1, 1 << 20], ids=["in bytes", "at once"])
def test_bytes_after_a_message_are_an_error(message: Message, size: int) -> None:
    frame = frame_of(message, without_unknown_tags(values_of(must_codec(*message), 2)))
    with pytest.raises(Malformed):
        searched(message, frame + b"secret", size)


def with_a_tag(values: Any, place: int) -> tuple[Any, int]:
    """Returns the values with an unknown tag in the struct of that number, and how many more structs are needed."""
    if isinstance(values, list):
        made = []
        for one in values:
            one, place = with_a_tag(one, place)
            made.append(one)
        return made, place
    if not isinstance(values, dict):
        return values, place
    found = dict(values)
    if place == 0:
        found["_tags"] = {99: b"secret"}
    place -= 1
    for name, value in values.items():
        found[name], place = with_a_tag(value, place)
    return found, place


@with_tags
def test_an_unknown_tag_is_an_error_wherever_it_stands(message: Message) -> None:
    values = without_unknown_tags(values_of(must_codec(*message), 3))
    place, left = 0, -1
    while left < 0:
        tagged, left = with_a_tag(values, place)
        if left < 0:
            with pytest.raises(Malformed):
                searched(message, frame_of(message, tagged))
        place += 1


@with_secrets
def test_any_frame_is_searched_or_raises_a_wire_error(message: Message) -> None:
    rng = random.Random(str(message))
    frame = frame_of(message, without_unknown_tags(values_of(must_codec(*message), 4)))
    for _ in range(40):
        broken = bytearray(frame)
        for _ in range(rng.randrange(1, 4)):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        outcomes = set()
        for size in (1 << 20, 5):
            with suppress(WireError):
                outcomes.add(tuple(searched(message, bytes(broken), size)))
        assert len(outcomes) <= 1
        assert all(0 <= start < stop <= len(broken) for spans in outcomes for start, stop in spans)


def hidden(message: Message, values: dict[str, Any]) -> list[bytes]:
    frame = frame_of(message, values)
    return [frame[start:stop] for start, stop in searched(message, frame)]


def configs(*settings: tuple[Any, ...]) -> list[dict[str, Any]]:
    return [dict(zip((NAME, "value", FLAG), one, strict=False)) for one in settings]


PLAIN, PASSWORD, VENDORS = "cleanup.policy", "ssl.key.password", "confluent.license"


@pytest.mark.parametrize("version", apis.versions(ALTER_CONFIGS))
def test_plain_settings_in_a_request_are_not_masked(version: int) -> None:
    settings = configs((PLAIN, "compact"), (PASSWORD, "p"), (VENDORS, "v"), ("", "n"), (PLAIN.upper(), "u"))
    values = {"resources": [{"resource_type": 2, "resource_name": "t", "configs": settings}]}
    assert hidden(("request", ALTER_CONFIGS, version), values) == [b"p", b"v", b"n", b"u"]


@pytest.mark.parametrize("version", range(5, 8))
def test_settings_in_an_answer_that_kafka_and_the_broker_call_plain_are_not_masked(version: int) -> None:
    settings = configs(
        (PLAIN, "stays", False), (PLAIN, "a", True), (PASSWORD, "b", False), (VENDORS, "c", False), (PLAIN, None, True)
    )
    values = {"topics": [{"name": "t", "error_message": "no a", "configs": settings}]}
    assert hidden(("response", CREATE_TOPICS, version), values) == [b"no a", b"a", b"b", b"c"]


@each_row("version", apis.versions(DESCRIBE_CONFIGS))
def test_synonyms_are_as_sensitive_as_what_they_are_synonyms_of(version: int) -> None:
    (plain, sensitive) = configs((PLAIN, "stays", False), (PLAIN, "a", True))
    for one, value in ((plain, "stays"), (sensitive, "b")):
        one["synonyms"] = configs(("log.cleanup.policy", value), (VENDORS, "c"))
    values = {"results": [{"configs": [plain, sensitive]}]}
    found = hidden(("response", DESCRIBE_CONFIGS, version), values)
    assert found == ([b"c", b"a", b"b", b"c"] if version else [b"a"])


def test_a_settings_name_may_be_cut_by_a_piece() -> None:
    frame = frame_of(("request", CREATE_TOPICS, 5), {"topics": [{"name": "t", "configs": configs((PLAIN, "stays"))}]})
    for cut in range(1, len(frame)):
        search = must_codec("request", CREATE_TOPICS, 5).search()
        search.feed(frame[:cut])
        search.feed(memoryview(frame)[cut:])
        assert search.found() == []


def test_more_pieces_than_the_message_has_are_an_error() -> None:
    search = must_codec("request", SASL_AUTHENTICATE, 0).search()
    search.feed(frame_of(("request", SASL_AUTHENTICATE, 0), {"auth_bytes": b"secret"}))
    search.feed(b"")
    with pytest.raises(Malformed):
        search.feed(b"x")


def test_every_plain_settings_name_is_short_enough_to_be_looked_at() -> None:
    for name in PLAIN_SETTINGS:
        settings = configs((name, "stays"))
        assert hidden(("request", CREATE_TOPICS, 1), {"topics": [{"name": "t", "configs": settings}]}) == []
