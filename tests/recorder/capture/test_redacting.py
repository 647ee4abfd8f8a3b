"""Tests of redacted captures: row by row what a recording with the rules holds."""

import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proxy.conversation.exchange import Direction
from proxy.wire import keys
from proxy.wire.headers import CLIENT_ID_SIZE_AT
from proxy.wire.records import Compression, Record, write_batch, write_message_set
from recorder.capture import frames as c
from recorder.capture.compactor import compact
from recorder.capture.merging import merge
from recorder.capture.record_rules import RecordRule
from recorder.capture.redacting import (
    CannotRedact,
    Redaction,
    captured_files,
    check_apart,
    left_out,
    redact_file,
    topics_told,
)
from recorder.capture.selection import SelectionSettings
from recorder.capture.session import RecordSettings
from recorder.capture.tap import Tap, open_tap
from recorder.capture.unchosen import unpacked
from recorder.inspect.summary import summarize
from tests.recorder.capture import traffic
from tests.recorder.capture.looks import everything, frame_rows, rows
from tests.recorder.capture.record_traffic import Planted, old_talk, ruled_talk, told_topics
from tests.recorder.capture.test_record_hashing import (
    ID,
    KEY,
    OTHER_ID,
    RECORDS,
    SECRET,
    call,
    captured,
    fetched,
    produced,
    talk_of,
    told,
)
from tests.recorder.capture.test_topic_choice import (
    NOT_PLAYED,
    ONLY,
    BrokerModel,
    fetch,
    of_every_version,
    told_all,
)
from tests.recorder.capture.traffic import Call, Player, Talk, cut
from tests.sweeps import mostly_long

Rows = list[dict[str, Any]]
# a connection, its next exchange, the size of its chunks
Played = tuple[int, Call, int]

# of two recordings of the same traffic, only these differ
OF_THE_RECORDING = (c.SESSION, c.AT, c.AT_NS)
RULES: dict[str, dict[str, Any]] = {
    "drop": {"records": RecordRule.DROP},
    "hash": {"records": RecordRule.HASH},
    "hash and drop by topic": {"topic_records": {"pay*": RecordRule.HASH, "hidden": RecordRule.DROP}},
    "hash but one": {"records": RecordRule.HASH, "topic_records": {"free": RecordRule.KEEP}},
    "drop but two": {
        "records": RecordRule.DROP,
        "topic_records": {"pay": RecordRule.HASH, "free": RecordRule.KEEP},
    },
}


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "hash.key"
    path.write_bytes(KEY)
    path.chmod(0o600)
    return path


def mixed(number: int, *, is_cut: bool) -> traffic.Call:
    """A fetch of batches of all kinds, whole and not. `is_cut`: its frame comes in pieces.

    Of bytes that are no batch a recording keeps up to 16 if a piece ends in them; `redact` never does.
    """
    old = [Record(7, 5, SECRET, SECRET * 3)]
    parts = [
        write_batch(RECORDS, codec=Compression.ZSTD) + write_batch(RECORDS)[:90],
        write_message_set(old, magic=1, codec=Compression.GZIP) + write_message_set(old, magic=0),
        b"" if is_cut else b"no batch at all " + SECRET,
        b"",
    ]
    of = [{"partition_index": place, "records": data} for place, data in enumerate(parts)]
    topics = [{"topic": name, "partitions": of} for name in ("pay", "free", "hidden")]
    return call(keys.FETCH, 11, {"topics": []}, {"responses": topics}, number)


def a_talk(cuts: int = 0) -> Talk:
    return talk_of(
        told(1, pay=ID, free=OTHER_ID),
        produced(2, "pay", "free", "hidden", codec=Compression.LZ4),
        fetched(3, 13, {"topic_id": ID}, {"topic_id": OTHER_ID}, {"topic_id": bytes(15) + b"\x09"}),
        mixed(4, is_cut=cuts > 0),
        traffic.call(random.Random(1), traffic.VENDOR, 5, "me"),
        call(keys.HEARTBEAT, 4, {"group_id": "g", "generation_id": 1, "member_id": "m"}, {"error_code": 0}, 6),
        cuts=cuts,
    )


def redacted(folder: Path, out: Path, **rules: Any) -> list[dict[str, Any]]:
    settings = SelectionSettings(**rules)
    paths = captured_files(folder)
    topics = topics_told(paths, settings)
    key = KEY if settings.hashed else None
    redaction = Redaction(str(out), settings, key, topics, left_out(paths, settings, topics))
    out.mkdir()
    assert [redact_file(redaction, path).reason for path in paths] == [None] * len(paths)
    return frame_rows(out)


def of_traffic(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in OF_THE_RECORDING} for row in found]


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
@pytest.mark.parametrize("cuts", [0, 80])
def test_a_redacted_capture_holds_what_a_recording_with_the_rules_holds(
    tmp_path: Path, key: Path, rules: dict[str, Any], cuts: int
) -> None:
    captured(tmp_path / "kept", key, a_talk(cuts))
    before = everything(tmp_path / "kept")
    found = redacted(tmp_path / "kept", tmp_path / "out", **rules)
    assert everything(tmp_path / "kept") == before
    expected = captured(tmp_path / "ruled", key, a_talk(cuts), **rules)
    for row, want in zip(of_traffic(found), of_traffic(expected), strict=True):
        assert row == want
    beginnings = [
        [row[c.DETAIL] for row in rows(folder, [c.KIND, c.DETAIL], kind=c.EVENTS_FOLDER) if row[c.KIND] == "session"]
        for folder in (tmp_path / "out", tmp_path / "ruled")
    ]
    assert beginnings[0] == beginnings[1]


@pytest.mark.parametrize("rule", [RecordRule.DROP, RecordRule.HASH])
@pytest.mark.parametrize("seed", mostly_long(range(20), 1))
def test_all_versions_of_all_messages_are_redacted_as_they_would_be_recorded(
    tmp_path: Path, key: Path, seed: int, rule: RecordRule
) -> None:
    planted = Planted(random.Random(f"{seed}"))
    # ids are told before their first use: `redact` knows what later answers tell, too
    talks = [
        cut(planted.rng, Talk(2, [told_topics(12, 0)]), 700),
        ruled_talk(planted, 0, 700),
        old_talk(planted, 1, 700),
    ]
    # one file: answers of 0.7 name no topic, and are told by their requests
    captured(tmp_path / "kept", key, *talks, segment=1 << 30)
    found = redacted(tmp_path / "kept", tmp_path / "out", topic_records={"payments-*": rule})
    expected = captured(tmp_path / "ruled", key, *talks, segment=1 << 30, topic_records={"payments-*": rule})
    for row, want in zip(of_traffic(found), of_traffic(expected), strict=True):
        assert row == want


class Ticking(Player):
    """Plays each chunk a microsecond later, as a clock would have it."""

    def __init__(self, tap: Tap) -> None:
        super().__init__(tap)
        self.at_ns = 5

    def play(self, connection: int, chunk: traffic.Chunk) -> None:
        self.at_ns += 1000
        super().play(connection, traffic.Chunk(chunk.direction, chunk.data, self.at_ns))


def recorded(folder: Path, connections: int, played: Iterable[tuple[int, Call, int]], **settings: Any) -> Rows:
    """The rows of exchanges, played one after the other: connection, exchange, the size of its chunks."""
    tap = open_tap(folder, RecordSettings(segment=30_000, **settings))
    player = Ticking(tap)
    for connection in range(connections):
        player.open(Talk(connection, []))
    for connection, one, size in played:
        for direction, data in zip(Direction, (one.request, one.answer or b""), strict=True):
            for at in range(0, len(data), size):
                player.play(connection, traffic.Chunk(direction, data[at : at + size], 0))
        tap.flush()
    for connection in range(connections):
        player.close(connection)
    tap.close()
    compact(folder)
    return frame_rows(folder)


def assert_redacted_as_recorded(
    folder: Path, connections: int, played: list[Played], kept: Path | None = None, **settings: Any
) -> Rows:
    """Returns the redacted rows. `kept`: where the traffic was recorded without rules already."""
    if kept is None:
        kept = folder / "kept"
        recorded(kept, connections, played)
    expected = recorded(folder / "ruled", connections, played, **settings)
    found = redacted(kept, folder / "out", **settings)
    assert [place_of(row) for row in found] == [place_of(row) for row in expected]
    for row, want in zip(of_traffic(found), of_traffic(expected), strict=True):
        assert row == want
    return found


def place_of(row: dict[str, Any]) -> tuple[Any, ...]:
    return row[c.CONNECTION], row[c.SEQUENCE], row[c.EXCHANGE], row[c.KIND], row[c.API]


@pytest.mark.real
@pytest.mark.parametrize("seed", mostly_long(range(10), 1))
def test_chosen_topics_of_every_version_are_redacted_as_they_would_be_recorded(tmp_path: Path, seed: int) -> None:
    calls = [told_topics(12, 0), *(one for one, _ in of_every_version(seed) if one.api_key not in NOT_PLAYED)]
    played = [
        (0, one, random.Random(f"{seed} {number}").choice([30, 900, 1 << 20])) for number, one in enumerate(calls)
    ]
    found = assert_redacted_as_recorded(tmp_path, 1, played, **ONLY)
    assert 100 < len(found) < 2 * len(calls) - 200


@pytest.mark.parametrize("seed", mostly_long(range(30), 1))
def test_sessions_over_connections_are_redacted_as_they_would_be_recorded(tmp_path: Path, seed: int) -> None:
    played = sessions_of_fetches(seed)
    found = assert_redacted_as_recorded(tmp_path, 2, played, **ONLY)
    assert len(found) < 2 * len(played) - 40


def sessions_of_fetches(seed: int, number: int = 120) -> list[Played]:
    """Fetches of two connections to one broker, within sessions that go on with either of them."""
    rng = random.Random(seed)
    broker, numbers = BrokerModel(rng), [1, 1]
    played: list[Played] = [(connection, told_all(0), 50) for connection in range(2)]
    for _ in range(number):
        connection = rng.randrange(2)
        played.append((connection, broker.fetch(numbers[connection])[0], rng.choice([3, 20, 1 << 20])))
        numbers[connection] += 1
    return played


def test_a_merged_capture_is_redacted_as_the_capture_that_it_is_made_of(tmp_path: Path) -> None:
    recorded(tmp_path / "kept", 2, sessions_of_fetches(7))
    assert merge(tmp_path / "kept", tmp_path / "merged", now_ns=1 << 62).large_files > 0
    found = redacted(tmp_path / "kept", tmp_path / "out", **ONLY)
    assert {place_of(row) for row in redacted(tmp_path / "merged", tmp_path / "again", **ONLY)} == {
        *map(place_of, found)
    }
    assert len(found) < len(frame_rows(tmp_path / "kept"))


@pytest.mark.parametrize("acks", [0, -1], ids=["none awaited", "none came"])
def test_a_request_without_a_response_is_left_out_of_its_own_segments_alone(tmp_path: Path, acks: int) -> None:
    played: list[Played] = [(0, unanswered(number, acks), 1 << 20) for number in range(160)]
    recorded(tmp_path, 1, played)
    settings = SelectionSettings(**ONLY)
    found = [unpacked(places) for places in left_out(captured_files(tmp_path), settings, ()).values()]
    assert len(found) > 2
    assert sorted(place for places in found for place in places) == [(0, number) for number in range(160)]


def unanswered(number: int, acks: int) -> Call:
    """A Produce to a topic that is not chosen, without a response."""
    partition = {"index": 0, "records": write_batch(RECORDS)}
    topic = {"name": "pay", "partition_data": [partition]}
    asked = call(keys.PRODUCE, 9, {"acks": acks, "timeout_ms": 1, "topic_data": [topic]}, {"responses": []}, number)
    return replace(asked, answer=None)


@pytest.mark.parametrize("seed", mostly_long(range(4), 1))
def test_chosen_topics_of_0_7_are_redacted_as_they_would_be_recorded(tmp_path: Path, key: Path, seed: int) -> None:
    talks = [old_talk(Planted(random.Random(seed)), 1, 700)]
    captured(tmp_path / "kept", key, *talks, segment=1 << 30)
    expected = captured(tmp_path / "ruled", key, *talks, segment=1 << 30, **ONLY)
    found = redacted(tmp_path / "kept", tmp_path / "out", **ONLY)
    assert 0 < len(found) < len(frame_rows(tmp_path / "kept"))
    assert of_traffic(found) == of_traffic(expected)


@pytest.fixture(scope="module")
def of_clients(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Played], Path]:
    """Exchanges of six clients on three connections, and where they were recorded."""
    rng = random.Random(1)
    played: list[Played] = []
    for number in range(60):
        for connection in range(3):
            one = told_all(number) if rng.random() < 0.5 else produced(number, rng.choice(["orders", "pay"]))
            played.append((connection, of_client(one, f"app-{rng.randrange(6)}"), rng.choice([7, 1 << 20])))
    kept = tmp_path_factory.mktemp("clients") / "kept"
    recorded(kept, 3, played)
    return played, kept


@pytest.mark.real
@pytest.mark.parametrize(
    "settings",
    [{"share": 0.4}, {"share": 0.4, "seed": 3}, {"shares": {"Metadata": 0.3}}, {"share": 0.6, **ONLY}],
    ids=["share", "another seed", "share of an API", "share and topics"],
)
def test_a_share_is_redacted_as_it_would_be_recorded(
    tmp_path: Path, of_clients: tuple[list[Played], Path], settings: dict[str, Any]
) -> None:
    played, kept = of_clients
    found = assert_redacted_as_recorded(tmp_path, 3, played, kept, **settings)
    assert 20 < len(found) < 2 * len(played) - 20


def of_client(one: Call, name: str) -> Call:
    """The same exchange, of another client id."""
    at = 4 + CLIENT_ID_SIZE_AT
    size = int.from_bytes(one.request[at : at + 2], "big")
    body = one.request[4:at] + len(name).to_bytes(2, "big") + name.encode() + one.request[at + 2 + size :]
    return Call(one.api_key, one.version, one.correlation_id, name, traffic.framed(body), one.answer)


def test_behind_frames_that_are_missing_a_session_is_unknown(tmp_path: Path) -> None:
    played = [(0, fetch(0, 0, 0, "pay", told=6), 1 << 20), (0, fetch(1, 6, 1), 1 << 20)]
    # what is left out of the capture may have added a chosen topic to the session
    played += [(0, told_all(2), 1 << 20), (0, fetch(3, 6, 2), 1 << 20)]
    recorded(tmp_path / "kept", 1, played, apis=("Fetch",))
    found = redacted(tmp_path / "kept", tmp_path / "out", **ONLY)
    assert [row[c.EXCHANGE] for row in found] == [3, 3]


@pytest.mark.parametrize("was_told", [True, False])
def test_answers_about_a_redacted_capture_say_what_was_chosen(tmp_path: Path, was_told: bool) -> None:
    recorded(tmp_path / "kept", 1, [(0, told_all(0), 50)], in_force={("log", "level"): '"info"'} if was_told else None)
    redacted(tmp_path / "kept", tmp_path / "out", share=0.9, seed=1, topics=("orders*",))
    missing = summarize(tmp_path / "out").losses.missing
    assert missing.samples == ["redact.share = 0.9"]
    assert missing.only_topics == ['redact.only.topics = ["orders*"]']


def test_a_frame_that_was_cut_off_is_redacted_too(tmp_path: Path, key: Path) -> None:
    whole = produced(1, "pay").request
    talk = Talk(0, [produced(1, "pay")])
    talk.chunks = [traffic.Chunk(Direction.REQUEST, whole[:-30], 5)]
    captured(tmp_path / "kept", key, talk)
    for rule in (RecordRule.DROP, RecordRule.HASH):
        (row,) = redacted(tmp_path / "kept", tmp_path / rule.value, records=rule)
        assert SECRET not in row[c.FRAME]


@pytest.mark.parametrize("rule", [RecordRule.DROP, RecordRule.HASH])
def test_a_client_id_whose_length_takes_in_records_is_left_out_as_a_recording_does(
    tmp_path: Path, key: Path, rule: RecordRule
) -> None:
    request = bytearray(produced(1, "pay").request)
    request[12:14] = (request.index(SECRET) + len(SECRET) - 14).to_bytes(2, "big")
    talk = Talk(0, [produced(1, "pay")])
    talk.chunks = [traffic.Chunk(Direction.REQUEST, bytes(request), 5)]
    captured(tmp_path / "kept", key, talk)
    (row,) = redacted(tmp_path / "kept", tmp_path / "out", records=rule)
    captured(tmp_path / "ruled", key, talk, records=rule)
    (ruled,) = frame_rows(tmp_path / "ruled")
    for one in (row, ruled):
        assert SECRET not in repr(one).encode()
        assert one[c.CLIENT_ID] is None


def test_what_is_hashed_is_not_hashed_again(tmp_path: Path, key: Path) -> None:
    captured(tmp_path / "hashed", key, a_talk(), records=RecordRule.HASH)
    settings = SelectionSettings(records=RecordRule.DROP)
    redaction = Redaction(str(tmp_path / "out"), settings)
    (tmp_path / "out").mkdir()
    outcomes = [redact_file(redaction, path) for path in captured_files(tmp_path / "hashed")]
    assert [one.reason for one in outcomes if "/frames/" in one.path] == ["its records are hashed already"]
    assert not [*(tmp_path / "out").rglob("*frames*/*.parquet")]


def test_the_new_folder_is_new_and_apart(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for out, reason in {"in": "must be apart", "in/out": "must be apart", ".": "must be apart"}.items():
        with pytest.raises(CannotRedact, match=reason):
            check_apart(tmp_path / "in", tmp_path / out)
    (tmp_path / "there").mkdir()
    with pytest.raises(CannotRedact, match="exists already"):
        check_apart(tmp_path / "in", tmp_path / "there")
