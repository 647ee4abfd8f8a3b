"""Tests of `capture.only.topics`: what is recorded, by an independent decoder and by a model of sessions."""

import random
import typing
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kio.schema.types import TopicName
from kio.serial import entity_reader

from fuzz import corpus
from fuzz.conversations import pair
from proxy.conversation.exchange import Direction
from proxy.wire import catalog, keys, records
from proxy.wire.catalog import UnknownMessage
from proxy.wire.language import Field
from recorder.capture import frames as c
from recorder.capture import topic_choice
from recorder.capture.compactor import compact
from recorder.capture.record_rules import RecordRule
from recorder.capture.session import RecordSettings
from recorder.capture.tap import Tap, open_tap
from recorder.capture.topic_choice import TopicChoice
from tests.proxy.wire.test_kio import kio_entity
from tests.recorder.capture.looks import event_rows, frame_rows, log_bytes, session_folder
from tests.recorder.capture.record_traffic import (
    FREE,
    IDS,
    RULED,
    UNKNOWN,
    Planted,
    old_talk,
    ruled_talk,
    told_topics,
)
from tests.recorder.capture.traffic import VENDOR, Call, Chunk, Player, Talk, cut, expected, framed
from tests.strategies import EVERY_MESSAGE, must_codec, values_of
from tests.sweeps import is_thorough, mostly_long

# FREE is chosen; of UNKNOWN, no answer tells the id
ONLY: dict[str, Any] = {"topics": ("orders*",)}
OTHERS = (RULED, "payments-8", "order")
# a group's member names the topics of its subscription in some of its heartbeats alone
OF_GROUPS = {
    keys.CONSUMER_GROUP_HEARTBEAT,
    keys.SHARE_GROUP_HEARTBEAT,
    keys.STREAMS_GROUP_HEARTBEAT,
    keys.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
}
BATCH = records.write_batch([records.Record(0, value=b"a value")])


def call(key: int, version: int, number: int, asked: Any, told: Any = None) -> Call:
    """An exchange. `told`: the values of its response; None: their defaults."""
    request = catalog.encode_request(key, version, number, "app", asked)
    return Call(
        key, version, number, "app", framed(request), framed(catalog.encode_response(key, version, number, told or {}))
    )


def recorded(folder: Path, talks: list[Talk], **settings: Any) -> list[dict[str, Any]]:
    """The rows of the talks, recorded one after the other."""
    tap = open_tap(folder, RecordSettings(**settings))
    Player(tap).all_of(talks)
    tap.close()
    compact(folder)
    return frame_rows(folder)


def exchanges_of(rows: list[dict[str, Any]], kind: str = c.REQUEST, connection: int | None = None) -> list[int]:
    return [row[c.EXCHANGE] for row in rows if row[c.KIND] == kind and connection in (None, row[c.CONNECTION])]


# the topics of requests, by kio


def topics_by_kio(value: Any) -> Iterator[str | bytes]:
    """The names of topics in an entity of kio, by its own types, and the ids of those that it does not name."""
    found_here = [*_topics_by_kio(value)]
    names = [one for one, is_own in found_here if is_own and isinstance(one, str)]
    yield from (one for one, is_own in found_here if not (is_own and isinstance(one, bytes) and names))


def _topics_by_kio(value: Any) -> Iterator[tuple[str | bytes, bool]]:
    """Topics, each with whether a field of the entity itself has it."""
    for name, annotation in typing.get_type_hints(type(value)).items():
        if name.startswith("__") or name == "cursor":
            # a cursor is where the answer begins: nothing is asked of its topic
            continue
        found = getattr(value, name)
        for one in found if isinstance(found, tuple) else (found,):
            if hasattr(one, "__dataclass_fields__"):
                yield from ((topic, False) for topic in topics_by_kio(one))
            elif isinstance(one, UUID) and name == "topic_id":
                yield one.bytes, True
            elif isinstance(one, str) and TopicName in (annotation, *inner_types(annotation)):
                yield one, True


def inner_types(annotation: Any) -> Iterator[Any]:
    for inner in typing.get_args(annotation):
        yield inner
        yield from inner_types(inner)


def with_topics(rng: random.Random, fields: tuple[Field, ...], values: dict[str, Any]) -> dict[str, Any]:
    """The values with names and ids of topics in them, and outside of any session."""
    plain = {"session_id": 0, "session_epoch": -1, "share_session_epoch": 0, "acks": 1}
    return {name: plain.get(name, value) for name, value in filled(rng, fields, values).items()}


def filled(rng: random.Random, fields: tuple[Field, ...], values: dict[str, Any]) -> dict[str, Any]:
    topic = rng.choice([FREE, UNKNOWN, *OTHERS * 3])
    by_name = {field.name: field for field in fields}

    def one(field: Field, value: Any) -> Any:
        if isinstance(value, list):
            return [one(field, element) for element in value]
        if isinstance(value, dict):
            return filled(rng, field.fields, value)
        if "topic_name" in field.marks:
            return "not-told" if topic == UNKNOWN else rng.choice([topic, *OTHERS]) if field.is_array else topic
        if "topic_id" in field.marks:
            return IDS.get(topic, IDS[RULED])
        return BATCH if field.type == "records" else value

    made = {name: value if value is None else one(by_name[name], value) for name, value in values.items()}
    for topic_of_none in made.get("forgotten_topics_data") or ():
        # without a partition, nothing is taken out
        topic_of_none["partitions"] = topic_of_none["partitions"] or [0]
    return made


def of_every_version(seed: object) -> Iterator[tuple[Call, bool]]:
    """Exchanges that may name topics, each with whether it is to be recorded."""
    rng = random.Random(f"{seed}")
    number = 1
    for kind, key, version in EVERY_MESSAGE:
        entity = kio_entity(kind, key, version) if kind == "request" else None
        if entity is None:
            continue
        for more in range(3 if is_thorough() else 2):
            values = values_of(must_codec("request", key, version), f"{seed} {more}", tame=True)
            values = with_topics(rng, must_codec("request", key, version).message.fields, values)
            body = must_codec("request", key, version).encode(values)
            topics = {*topics_by_kio(entity_reader(entity)(body, 0)[0])}
            if not topics and more:
                continue
            known = {topic: name for name, topic in IDS.items() if name != UNKNOWN}
            named = [known.get(topic) if isinstance(topic, bytes) else topic for topic in topics]
            is_wanted = not named or key in OF_GROUPS or any(name in (FREE, None) for name in named)
            yield call(key, version, number, values), is_wanted
            number += 1


# exchanges of other rooms: logins, and what the proxy answers or refuses itself
NOT_PLAYED = {keys.SASL_HANDSHAKE, keys.SASL_AUTHENTICATE, keys.API_VERSIONS, keys.CONTROLLED_SHUTDOWN}


# kio's modules of all requests take seconds to import
@pytest.mark.real
@pytest.mark.parametrize("largest", mostly_long([100_000, 900, 40], 1))
@pytest.mark.parametrize("seed", mostly_long(range(8), 1))
def test_an_exchange_is_recorded_if_kio_finds_a_chosen_topic_in_its_request_or_none_at_all(
    seed: int, largest: int, tmp_path: Path
) -> None:
    made = [one for one in of_every_version(seed) if one[0].api_key not in NOT_PLAYED]
    calls, wanted = [told_topics(12, 0), *(one for one, _ in made)], [True, *(is_wanted for _, is_wanted in made)]
    # the ids are told before the first of them is used
    talk, rng = Talk(1, calls), random.Random(seed)
    talk.chunks = cut(rng, Talk(1, calls[:1]), largest).chunks + cut(rng, Talk(1, calls[1:]), largest).chunks
    rows = recorded(tmp_path, [talk], **ONLY)
    assert event_rows(tmp_path, "gap") == []
    requests, responses = {*exchanges_of(rows)}, {*exchanges_of(rows, c.RESPONSE)}
    wrong = [
        (one.api_key, one.version, is_wanted)
        for number, (one, is_wanted) in enumerate(zip(calls, wanted, strict=True))
        if is_wanted is not (number in requests) or is_wanted is not (number in responses)
    ]
    assert wrong == []
    assert len(calls) - len(requests) > 100
    assert len({calls[number].api_key for number in requests}) > 50


@pytest.mark.parametrize("largest", mostly_long([9, 700], 1))
def test_frames_that_are_kept_are_whole_but_for_records_of_other_topics(largest: int, tmp_path: Path) -> None:
    topics = [produced(name, f"value of {name}".encode()) for name in (RULED, FREE)]
    calls = [call(keys.PRODUCE, 9, 0, {"acks": 1, "topic_data": topics})]
    talk = cut(random.Random(1), Talk(1, calls), largest)
    request, response = recorded(tmp_path / "only", [talk], **ONLY)
    whole, _ = recorded(tmp_path / "all", [talk])
    dropped = b"".join(
        whole[c.FRAME][span["start"] : span["start"] + span["length"]] for span in request[c.DROPPED] or ()
    )
    assert b"value of payments-7" in dropped
    assert b"value of orders" in request[c.FRAME]
    assert len(request[c.FRAME]) == len(whole[c.FRAME])
    assert response[c.RECORDS] is None


def produced(name: str, value: bytes) -> dict[str, Any]:
    batch = records.write_batch([records.Record(0, value=value)])
    return {"name": name, "partition_data": [{"index": 0, "records": batch}]}


def test_what_is_left_out_is_counted_and_leaves_nothing_on_the_disk(tmp_path: Path) -> None:
    calls = [call(keys.PRODUCE, 9, 0, {"acks": 1, "topic_data": [produced(RULED, b"Q" * 100)]})]
    one_way = call(keys.PRODUCE, 9, 1, {"acks": 0, "topic_data": [produced(RULED, b"Q" * 100)]})
    calls += [Call(*{**vars(one_way), "answer": None}.values()), call(keys.METADATA, 9, 2, {"topics": None})]
    talk = cut(random.Random(1), Talk(1, calls), 30)
    tap = open_tap(tmp_path, RecordSettings(**ONLY))
    Player(tap).all_of([talk])
    counters = tap.counters()
    tap.flush()
    assert b"QQ" not in log_bytes(session_folder(tmp_path, tap.session))
    tap.close()
    compact(tmp_path)
    rows = frame_rows(tmp_path)
    assert exchanges_of(rows) == exchanges_of(rows, c.RESPONSE) == [2]
    assert counters["left_out_frames.topics"] == 3
    assert event_rows(tmp_path, "closed")[0][c.FRAMES] == 5


@pytest.mark.parametrize("names", [[RULED, FREE], [RULED, "payments-8"]])
def test_a_request_waits_for_its_topics_up_to_a_bound_past_which_it_is_recorded(
    names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_choice, "MOST_WAITING", 5000)
    value = bytes(random.Random(1).randrange(256) for _ in range(20_000))
    asked = {"acks": 1, "topic_data": [produced(names[0], value), produced(names[1], b"short")]}
    talk = cut(random.Random(1), Talk(1, [call(keys.PRODUCE, 9, 0, asked)]), 700)
    tap = open_tap(tmp_path, RecordSettings(**ONLY))
    player, arrived = Player(tap), 0
    player.open(talk)
    for chunk in talk.chunks:
        player.play(1, chunk)
        arrived += len(chunk.data)
        tap.flush()
        if chunk.direction is Direction.REQUEST and arrived > 5000 + 700:
            # it waits no longer
            assert tap._recorders[1].is_settled
    player.close(1)
    tap.close()
    compact(tmp_path)
    request, _ = frame_rows(tmp_path)
    assert value[:1000] not in request[c.FRAME]
    assert request[c.RECORDS] == c.DROP


def test_a_request_that_names_one_topic_waits_for_nothing_behind_its_name(tmp_path: Path) -> None:
    asked = call(keys.PRODUCE, 9, 0, {"acks": 1, "topic_data": [produced(RULED, b"Q" * (3 << 20))]}).request
    tap = open_tap(tmp_path, RecordSettings(**ONLY))
    player = Player(tap)
    player.open(Talk(1, []))
    player.play(1, Chunk(Direction.REQUEST, asked[:100], 5))
    assert tap._recorders[1].is_settled
    player.play(1, Chunk(Direction.REQUEST, asked[100:], 6))
    player.close(1)
    tap.close()
    compact(tmp_path)
    assert frame_rows(tmp_path) == []


@pytest.mark.parametrize("seed", mostly_long(range(4), 1))
def test_requests_of_0_7_are_chosen_by_their_topics(seed: int, tmp_path: Path) -> None:
    planted = Planted(random.Random(seed))
    talk = old_talk(planted, 1, 50)
    rows = recorded(tmp_path, [talk], **ONLY)
    wanted = [number for number, one in enumerate(talk.calls) if FREE.encode() in one.request]
    assert 0 < len(wanted) < len(talk.calls)
    assert exchanges_of(rows) == wanted
    frames = b"".join(row[c.FRAME] for row in rows)
    assert [text for text in planted.hidden if text in frames] == []


def test_what_nobody_can_read_is_recorded_without_its_body(tmp_path: Path) -> None:
    unknown = VENDOR.to_bytes(2, "big") + b"\0\0\0\0\0\1\0\3app" + b"Q" * 50
    # a topic's name that is longer than its frame
    broken = b"\0\0\0\x09\0\0\0\2\0\3app\0" + b"\0\0\1\0\0\0\1\3\xff\xff" + b"Q" * 50
    calls = [call(keys.METADATA, 9, 0, {"topics": None})]
    calls += [Call(VENDOR, 0, 1, "app", framed(unknown), framed(b"\0\0\0\1" + b"Q" * 9))]
    calls += [Call(0, 9, 2, "app", framed(broken), framed(b"\0\0\0\2\0"))]
    rows = recorded(tmp_path, [cut(random.Random(1), Talk(1, calls), 11)], **ONLY)
    assert exchanges_of(rows) == [0, 1, 2]
    assert not [row for row in rows if b"Q" in row[c.FRAME]]


# whole frames, which take a short way


def of_corpus() -> Iterator[Call]:
    """The fuzz corpus's requests, each with the response of its API and version."""
    responses = {(key, version): frame for _, key, version, frame in corpus.frames("response")}
    for number, (_, key, version, frame) in enumerate(corpus.frames("request")):
        if (key, version) in responses and key not in NOT_PLAYED:
            request, response = pair(frame, responses[key, version], number)
            decoded = catalog.decode_request(frame)
            assert not isinstance(decoded, UnknownMessage)
            is_one_way = not decoded[1].get("acks", 1)
            yield Call(key, version, number, None, request, None if is_one_way else response)


def renumbered(one: Call, number: int) -> Call:
    """The exchange with another correlation id, as a client repeats it."""
    told = number.to_bytes(4, "big")
    answer = one.answer and one.answer[:4] + told + one.answer[8:]
    request = one.request[:8] + told + one.request[12:]
    return Call(one.api_key, one.version, number, one.client_id, request, answer)


def left_in(
    folder: Path, calls: list[Call], pieces: Callable[[bytes], Iterable[bytes]], together: int, **rules: Any
) -> Any:
    """What is left of the exchanges, some of which come together in pieces: rows, counters, gaps; and the log."""
    tap = open_tap(folder, RecordSettings(**rules), "s")
    player = Player(tap)
    player.open(Talk(1, calls))
    for at in range(0, len(calls), together):
        some = calls[at : at + together]
        streams = (b"".join(one.request for one in some), b"".join(one.answer or b"" for one in some))
        for direction, data in zip(Direction, streams, strict=True):
            for piece in pieces(data):
                player.play(1, Chunk(direction, piece, at + 5))
    player.close(1)
    tap.flush()
    counters, log = tap.counters(), log_bytes(session_folder(folder, "s"))
    tap.close()
    compact(folder)
    columns = (c.EXCHANGE, c.KIND, c.FRAME, c.DROPPED, c.RECORDS, c.OMITTED, c.SIZE, c.SEQUENCE)
    rows = [tuple(row[column] for column in columns) for row in frame_rows(folder)]
    counted = {name: counters[name] for name in ("left_out_frames.topics", "left_out_bytes", "gaps")}
    return (rows, counted, [len(event_rows(folder, kind)) for kind in ("gap", "counted")]), log


def whole(data: bytes) -> Iterable[bytes]:
    return [data] * bool(data)


def halves(data: bytes) -> Iterable[bytes]:
    """Each frame in two pieces, so that none is plain."""
    at = 0
    while at < len(data):
        stop = at + 4 + int.from_bytes(data[at : at + 4], "big")
        middle = (at + stop) // 2
        yield from (data[at:middle], data[middle:stop])
        at = stop


@pytest.mark.real
@pytest.mark.parametrize("pieces", [whole, halves])
def test_after_a_fault_no_exchange_is_recorded_that_is_not_chosen(
    pieces: Callable[[bytes], Iterable[bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the request at the fault was chosen is not known, and its response comes when the recording goes on."""
    chosen = [number % 2 for number in range(6)]
    calls = [committed(number, FREE if is_chosen else RULED) for number, is_chosen in enumerate(chosen)]
    real = TopicChoice.takes

    def asked_at(fault: int) -> tuple[int, list[dict[str, Any]]]:
        asked = 0

        def takes(*arguments: Any) -> bool | None:
            nonlocal asked
            asked += 1
            if asked == fault:
                raise RuntimeError("a bug")
            return real(*arguments)

        monkeypatch.setattr(TopicChoice, "takes", takes)
        talk = Talk(1, calls)
        for direction, frames in ((0, [one.request for one in calls]), (1, [one.answer or b"" for one in calls])):
            talk.chunks += [Chunk(Direction(direction), piece, 5) for frame in frames for piece in pieces(frame)]
        rows = recorded(tmp_path / str(fault), [talk], **ONLY)
        return asked, rows

    times, _ = asked_at(0)
    assert times >= len(calls)
    for fault in range(1, times + 1):
        _, rows = asked_at(fault)
        assert {*exchanges_of(rows), *exchanges_of(rows, c.RESPONSE)} <= {1, 3, 5}
        assert len(exchanges_of(rows, c.RESPONSE)) >= 2


def committed(number: int, topic: str) -> Call:
    asked = {"group_id": "g", "topics": [{"name": topic, "partitions": [{"partition_index": 0}]}]}
    told = {"topics": [{"name": topic, "partitions": [{"partition_index": 0}]}]}
    return call(keys.OFFSET_COMMIT, 8, number, asked, told)


RULES: dict[str, dict[str, Any]] = {
    "chosen": ONLY,
    "chosen and dropped": {"topics": ("orders*", "payments-8"), "topic_records": {"payments-*": RecordRule.DROP}},
    "all dropped": {"records": RecordRule.DROP},
}


# (where the exchanges come from, how many of them come together)
WHOLE = [("corpus", 3), ("records", 3), ("sessions", 1), ("corpus", 1), ("corpus", 16), ("records", 1), ("records", 16)]
WHOLE += [("every version", 1), ("every version", 16)]


@pytest.mark.parametrize(("source", "together"), mostly_long(WHOLE, 3))
@pytest.mark.parametrize("rule", RULES)
def test_frames_that_come_whole_are_left_out_as_those_that_come_in_pieces(
    source: str, rule: str, together: int, tmp_path: Path
) -> None:
    planted = Planted(random.Random(together))
    broker = BrokerModel(planted.rng)
    found: dict[str, Callable[[], Iterable[Call]]] = {
        "every version": lambda: (one for one, _ in of_every_version(together) if one.api_key not in NOT_PLAYED),
        "corpus": of_corpus,
        "records": lambda: ruled_talk(planted, 1, 5000).calls[1:],
        "sessions": lambda: (broker.fetch(number)[0] for number in range(200)),
    }
    once = [*found[source]()]
    # the second of its like is remembered, and tells of the third, which comes behind others
    again = [] if source == "sessions" else [*(one for one in once for _ in range(2)), *once[::-1]]
    calls = [renumbered(one, number) for number, one in enumerate([told_all(0), *once, *again])]
    left, log = left_in(tmp_path / "whole", calls, whole, together, **RULES[rule])
    assert left_in(tmp_path / "pieces", calls, halves, together, **RULES[rule])[0] == left
    assert [text for text in planted.hidden if rule == "all dropped" and text in log] == []


# sessions


class BrokerModel:
    """The broker's sessions, kept the obvious way: the whole set of partitions of each."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.sessions, self.last = rng, dict[int, set[tuple[str, int]]](), 100
        # a client names topics in one way as long as a session lasts
        self.versions = dict[int, int]()

    def fetch(self, number: int) -> tuple[Call, bool]:
        """A Fetch that begins, changes, goes on with or closes a session, with whether it is to be recorded."""
        rng, chosen_few = self.rng, [FREE, RULED, RULED, "payments-8"]
        added = {(rng.choice(chosen_few), rng.randrange(2)) for _ in range(rng.choice([0, 1, 1, 2]))}
        session = rng.choice([0, *self.sessions])
        kind = rng.choice(["begin", "once"] if not session else ["begin", "change", "change", "change", "close"])
        held, gone, told = self.sessions.get(session, set()), set[tuple[str, int]](), session
        about = {name for name, _ in added}
        version = self.versions.get(session) or rng.choice([7, 12, 13, 17])
        if kind == "begin":
            self.sessions.pop(session, None)
            told = rng.choice([0, self.last])
            if told:
                self.last += 1
                self.versions[told] = version
                self.sessions[told] = set(added)
        elif kind == "once":
            session = told = 0
        else:
            gone = {rng.choice([*held])} if held and rng.random() < 0.5 else set()
            held -= gone
            added -= gone
            about = {name for name, _ in added | gone | held}
            if kind == "change":
                held |= added
            else:
                told = 0
                del self.sessions[session]
        asked = {
            "session_id": session,
            "session_epoch": {"begin": 0, "change": 7}.get(kind, -1),
            "topics": [
                {"topic": name, "topic_id": named_id(name), "partitions": [{"partition": at}]} for name, at in added
            ],
            "forgotten_topics_data": [
                {"topic": name, "topic_id": named_id(name), "partitions": [at]} for name, at in gone
            ],
        }
        return call(keys.FETCH, version, number, asked, {"session_id": told}), not about or FREE in about


def named_id(name: str) -> bytes:
    return IDS.get(name, bytes([8] * 16))


def told_all(number: int) -> Call:
    names = (RULED, FREE, "payments-8")
    topics = [{"name": name, "topic_id": named_id(name), "partitions": []} for name in names]
    return call(keys.METADATA, 12, number, {"topics": None}, {"topics": topics})


@pytest.mark.parametrize("seed", mostly_long(range(30), 3))
def test_a_fetch_is_about_all_topics_of_its_session_also_on_another_connection(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    broker = BrokerModel(rng)
    calls: list[list[Call]] = [[told_all(0)], [told_all(0)]]
    wanted, order = [[0], [0]], [0, 1]
    for _ in range(120):
        connection = rng.randrange(2)
        number = len(calls[connection])
        one, is_wanted = broker.fetch(number)
        calls[connection].append(one)
        order.append(connection)
        wanted[connection] += [number] * is_wanted
    tap = open_tap(tmp_path, RecordSettings(**ONLY))
    player = Player(tap)
    for connection in range(2):
        player.open(Talk(connection, []))
    left = [iter(some) for some in calls]
    for connection in order:
        play_exchange(player, connection, next(left[connection]), rng)
    for connection in range(2):
        player.close(connection)
    tap.close()
    compact(tmp_path)
    rows = frame_rows(tmp_path)
    for connection in range(2):
        assert exchanges_of(rows, c.REQUEST, connection) == wanted[connection]
        assert exchanges_of(rows, c.RESPONSE, connection) == wanted[connection]
        assert len(wanted[connection]) < len(calls[connection]) - 10


def play_exchange(player: Player, connection: int, one: Call, rng: random.Random) -> None:
    """Plays a request and then its response, cut anywhere."""
    for direction, data in zip(Direction, (one.request, one.answer or b""), strict=True):
        size = rng.choice([3, 20, len(data)]) or 1
        for at in range(0, len(data), size):
            player.play(connection, Chunk(direction, data[at : at + size], 5))


def recorded_steps(tap: Tap, folder: Path, steps: list[Call | RecordSettings]) -> list[int]:
    """The exchanges that are recorded of these, with changes of the settings between them."""
    player = Player(tap)
    player.open(Talk(1, []))
    for step in steps:
        if isinstance(step, Call):
            play_exchange(player, 1, step, random.Random(1))
        else:
            tap.selection_change(step)[0]()
    player.close(1)
    tap.close()
    compact(folder)
    return exchanges_of(frame_rows(folder))


def fetch(number: int, session: int, epoch: int, *names: str, told: int = 0) -> Call:
    topics = [{"topic": name, "partitions": [{"partition": 0}]} for name in names]
    asked = {"session_id": session, "session_epoch": epoch, "topics": topics}
    return call(keys.FETCH, 11, number, asked, {"session_id": told})


def test_a_session_whose_beginning_was_not_seen_is_recorded(tmp_path: Path) -> None:
    steps = [fetch(0, 5, 3, RULED), fetch(1, 5, 4), fetch(2, 5, 0, RULED, told=6), fetch(3, 6, 1)]
    assert recorded_steps(open_tap(tmp_path, RecordSettings(**ONLY)), tmp_path, [*steps]) == [0, 1]


def test_other_topics_may_be_chosen_while_a_session_lasts(tmp_path: Path) -> None:
    steps: list[Call | RecordSettings] = [fetch(0, 0, 0, RULED, told=6), fetch(1, 6, 1)]
    steps += [RecordSettings(topics=("payments-7",)), fetch(2, 6, 2), RecordSettings(**ONLY), fetch(3, 6, 3)]
    # while nothing is left out, nobody follows the sessions
    steps += [RecordSettings(), fetch(4, 6, 4, FREE), RecordSettings(**ONLY), fetch(5, 6, 5)]
    assert recorded_steps(open_tap(tmp_path, RecordSettings(**ONLY)), tmp_path, steps) == [2, 4, 5]


def test_a_request_that_has_begun_before_topics_were_chosen_is_recorded(tmp_path: Path) -> None:
    one = call(keys.PRODUCE, 9, 0, {"acks": 1, "topic_data": [produced(RULED, b"Q" * 100)]})
    tap = open_tap(tmp_path, RecordSettings(client_ids=("app",)))
    player = Player(tap)
    player.open(Talk(1, []))
    player.play(1, Chunk(Direction.REQUEST, one.request[:-60], 5))
    tap.selection_change(RecordSettings(client_ids=("app",), **ONLY))[0]()
    player.play(1, Chunk(Direction.REQUEST, one.request[-60:], 6))
    player.play(1, Chunk(Direction.RESPONSE, one.answer or b"", 7))
    assert tap._recorders[1].is_settled
    player.close(1)
    tap.close()
    compact(tmp_path)
    assert len(frame_rows(tmp_path)) == 2


def share(key: int, number: int, epoch: int, *names: str, forgotten: tuple[str, ...] = (), member: str = "m") -> Call:
    topics = [{"topic_id": named_id(name), "partitions": [{"partition_index": 0}]} for name in names]
    gone = [{"topic_id": named_id(name), "partitions": [0]} for name in forgotten]
    asked = {"group_id": "g", "member_id": member, "share_session_epoch": epoch, "topics": topics}
    return call(key, 1, number, asked | {"forgotten_topics_data": gone} if key == keys.SHARE_FETCH else asked)


def test_a_share_session_is_that_of_the_groups_member(tmp_path: Path) -> None:
    fetched, acknowledged = keys.SHARE_FETCH, keys.SHARE_ACKNOWLEDGE
    steps = [
        told_all(0),
        share(fetched, 1, 0, RULED),
        share(fetched, 2, 1),
        share(fetched, 3, 0, FREE, member="other"),
        share(fetched, 4, 2, FREE),
        share(acknowledged, 5, 3, RULED),
        # the request takes the chosen topic out
        share(fetched, 6, 4, forgotten=(FREE,)),
        share(acknowledged, 7, 5, RULED),
        share(fetched, 8, 6),
        share(acknowledged, 9, -1, RULED),
        share(acknowledged, 10, 1, RULED, member="other"),
        share(acknowledged, 11, -1, member="other"),
    ]
    assert recorded_steps(open_tap(tmp_path, RecordSettings(**ONLY)), tmp_path, [*steps]) == [0, 3, 4, 5, 6, 10, 11]


def test_without_a_pattern_every_exchange_is_recorded(tmp_path: Path) -> None:
    talk = cut(random.Random(1), Talk(1, [told_topics(12, 0), fetch(1, 0, 0, RULED, told=3), fetch(2, 3, 1)]), 50)
    rows = recorded(tmp_path, [talk])
    assert len(rows) == len(expected(talk))
