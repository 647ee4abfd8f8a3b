"""Tests of sessions that hash records: what is in rows, and that no planted value is on the disk at any moment."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from proxy import wire
from proxy.conversation.exchange import Direction
from proxy.wire import keys
from proxy.wire.budget import Budget
from proxy.wire.places import partitions
from proxy.wire.records import (
    Compression,
    ControlType,
    Record,
    end_marker_batch,
    read,
    write_batch,
    write_message_set,
)
from recorder.capture import frames as c
from recorder.capture.compactor import compact, compact_session
from recorder.capture.handover import decoded
from recorder.capture.record_rules import RecordRule
from recorder.capture.session import RecordSettings
from recorder.capture.tap import Tap, open_tap
from recorder.facts.batches import BATCHES
from recorder.facts.rows import Decoder, DecoderIndex, frame_of
from recorder.facts.topic_partitions import PARTITION_FACTS
from recorder.hashing.hasher import Hasher
from recorder.inspect.commands import inspect
from tests.recorder.capture import traffic
from tests.recorder.capture.looks import event_rows, frame_rows, kill, rows
from tests.recorder.capture.traffic import Call, Player, Talk

KEY = b"a key of thirty-two bytes or more"
HASHER = Hasher(KEY)
SECRET = b"4111-1111-1111-1111"
RECORDS = [Record(0, 1_700_000_000_000, SECRET, SECRET * 9, (("name", SECRET),)), Record(1, 5, None, SECRET)]
ID, OTHER_ID = bytes(range(16)), bytes(range(1, 17))


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "hash.key"
    path.write_bytes(KEY)
    path.chmod(0o600)
    return path


def call(key: int, version: int, request: dict[str, Any], answer: dict[str, Any], number: int) -> Call:
    asked = wire.encode_request(key, version, correlation_id=number, client_id="me", values=request)
    told = wire.encode_response(key, version, correlation_id=number, values=answer)
    return Call(key, version, number, "me", traffic.framed(asked), traffic.framed(told))


def produced(number: int, *topics: str, codec: Compression = Compression.NONE) -> Call:
    data = write_batch(RECORDS, codec=codec)
    of = [{"name": name, "partition_data": [{"index": 0, "records": data}]} for name in topics]
    quoting = {"index": 0, "error_code": 87, "error_message": SECRET.decode(), "base_offset": -1}
    told = [{"name": name, "partition_responses": [quoting]} for name in topics]
    return call(keys.PRODUCE, 9, {"acks": -1, "timeout_ms": 1, "topic_data": of}, {"responses": told}, number)


def fetched(number: int, version: int, *topics: dict[str, Any]) -> Call:
    data = write_batch(RECORDS, codec=Compression.GZIP) + write_batch(RECORDS)[:90]
    found = [topic | {"partitions": [{"partition_index": 0, "records": data}]} for topic in topics]
    return call(keys.FETCH, version, {"topics": []}, {"responses": found}, number)


def told(number: int, **topics: bytes) -> Call:
    found = [{"name": name, "topic_id": topic_id, "partitions": []} for name, topic_id in topics.items()]
    return call(keys.METADATA, 12, {"topics": None}, {"topics": found, "brokers": []}, number)


def talk_of(*calls: Call, seed: int = 1, cuts: int = 0) -> Talk:
    made = Talk(0, [*calls])
    return traffic.cut(random.Random(seed), made, cuts) if cuts else traffic.cut(random.Random(seed), made, 1 << 20)


def tap_for(folder: Path, key: Path, **settings: Any) -> Tap:
    return open_tap(folder, RecordSettings(hash_key=key, **{"segment": 3_000} | settings))


def played(tap: Tap, talk: Talk) -> None:
    player = Player(tap)
    player.open(talk)
    for chunk in talk.chunks:
        player.play(talk.connection, chunk)
        tap.flush()
    player.close(talk.connection)


def captured(folder: Path, key: Path, *talks: Talk, **settings: Any) -> list[dict[str, Any]]:
    tap = tap_for(folder, key, **settings)
    for talk in talks:
        played(tap, talk)
    tap.close()
    handover = decoded(tap.child_input) if tap.child_input else None
    assert compact_session(folder, tap.session, handover=handover).finished
    assert event_rows(folder, c.EVENT_GAP) == []
    return frame_rows(folder)


def assert_nothing_planted(folder: Path) -> None:
    hashed = HASHER.hashed(SECRET)
    assert hashed is not None
    for path in folder.rglob("*"):
        if path.is_file():
            assert SECRET not in path.read_bytes(), path
    for row in rows(folder):
        assert SECRET not in (row[c.FRAME] or b"")


def hashed(records: list[Record]) -> list[tuple[bytes | None, bytes | None, Any]]:
    return [
        (
            HASHER.hashed(one.key),
            HASHER.hashed(one.value),
            [(name, HASHER.hashed(value)) for name, value in one.headers],
        )
        for one in records
    ]


def of(found: list[dict[str, Any]], api: str, kind: str) -> list[dict[str, Any]]:
    return [row for row in found if (row[c.API], row[c.KIND]) == (api, kind)]


def records_in(row: dict[str, Any]) -> list[list[tuple[bytes | None, bytes | None, Any]]]:
    """The records of each partition in a frame, those of whole batches."""
    frame, is_request = row[c.FRAME], row[c.KIND] == c.REQUEST
    key, version = row[c.API_KEY], row[c.API_VERSION]
    decoded_frame = wire.decode_request(frame) if is_request else wire.decode_response(frame, key, version)
    assert isinstance(decoded_frame, tuple)
    found = [place.values["records"] for place in partitions(row[c.KIND], key, decoded_frame[1])]
    return [[(one.key, one.value, list(one.headers)) for one in read(data)] for data in found]


@pytest.mark.parametrize("cuts", [0, 60])
def test_values_are_hashed_and_all_else_is_what_arrived(tmp_path: Path, key: Path, cuts: int) -> None:
    talk = talk_of(
        told(1, t=ID),
        produced(2, "t", "u", codec=Compression.ZSTD),
        fetched(3, 11, {"topic": "t"}),
        fetched(4, 13, {"topic_id": ID}),
        cuts=cuts,
    )
    folder = tmp_path / "capture"
    found = captured(folder, key, talk, records=RecordRule.HASH)
    assert_nothing_planted(folder)
    expected = traffic.expected(talk)
    for row, want in zip(found, expected, strict=True):
        for name in ("sequence", "exchange", "kind", "api_key", "api_version", "correlation_id", "size", "mono_ns"):
            assert row[name] == want[name]
    (request,), (answer,) = of(found, "Produce", c.REQUEST), of(found, "Produce", c.RESPONSE)
    assert records_in(request) == [hashed(RECORDS)] * 2
    size = len(write_batch(RECORDS, codec=Compression.ZSTD))
    batch = {"rule": "hash", "codec": "zstd", "size": size, "is_intact": True, "batches": 1}
    assert (request[c.RECORDS], request[c.BATCHES]) == (c.HASH, [batch] * 2)
    # all of it is there, in another form
    assert len(request[c.FRAME]) != request[c.STORED] == request[c.SIZE]
    assert answer[c.RECORDS] == c.DROP
    for row in of(found, "Fetch", c.RESPONSE):
        assert records_in(row) == [hashed(RECORDS)]
        assert (row[c.RECORDS], [told["codec"] for told in row[c.BATCHES]]) == (c.HASH, ["gzip"])
        # of the batch that is cut off, zeros stand for the bytes behind its head
        assert row[c.FRAME].count(write_batch(RECORDS)[:61] + bytes(90 - 61)) == 1


def test_each_topic_has_its_own_rule_by_name_and_by_id(tmp_path: Path, key: Path) -> None:
    topics = {"hidden": RecordRule.DROP, "pay*": RecordRule.HASH}
    talk = talk_of(
        fetched(1, 13, {"topic_id": ID}, {"topic_id": OTHER_ID}),
        told(2, pay=ID, free=OTHER_ID),
        produced(3, "free", "pay-1", "hidden"),
        fetched(4, 13, {"topic_id": ID}, {"topic_id": OTHER_ID}),
    )
    found = captured(tmp_path / "capture", key, talk, topic_records=topics)
    plain = [(one.key, one.value, list(one.headers)) for one in RECORDS]
    unknown, known = of(found, "Fetch", c.RESPONSE)
    # nobody had told these ids
    assert SECRET not in unknown[c.FRAME]
    assert [told["rule"] for told in unknown[c.BATCHES]] == ["drop", "drop"]
    assert records_in(known) == [hashed(RECORDS), plain]
    (request,) = of(found, "Produce", c.REQUEST)
    assert [told["rule"] for told in request[c.BATCHES]] == ["keep", "hash", "drop"]
    values = wire.decode_request(request[c.FRAME])
    assert isinstance(values, tuple)
    data = {topic["name"]: topic["partition_data"][0]["records"] for topic in values[1]["topic_data"]}
    assert data["free"] == write_batch(RECORDS)
    assert SECRET not in data["pay-1"] + data["hidden"]


def test_what_was_told_of_topics_outlives_the_compactor(tmp_path: Path, key: Path) -> None:
    folder, topics = tmp_path / "capture", {"pay*": RecordRule.HASH}
    tap = tap_for(folder, key, topic_records=topics)
    first = talk_of(told(1, pay=ID, free=OTHER_ID), *(produced(number, "free") for number in range(2, 40)))
    played(tap, first)
    # leaves a state, and waits for the session's end
    assert compact_session(folder, tap.session, handover=decoded(tap.child_input)).finished is False
    later = talk_of(fetched(1, 13, {"topic_id": ID}, {"topic_id": OTHER_ID}))
    later.connection = 1
    played(tap, later)
    tap.close()
    assert compact_session(folder, tap.session, handover=decoded(tap.child_input)).finished
    (answer,) = (row for row in frame_rows(folder, 1) if row[c.KIND] == c.RESPONSE)
    assert records_in(answer) == [hashed(RECORDS), [(one.key, one.value, list(one.headers)) for one in RECORDS]]


@pytest.mark.parametrize("bodies", ["head", 40, 200])
def test_of_frames_that_are_kept_in_part_no_value_is_kept(tmp_path: Path, key: Path, bodies: Any) -> None:
    talk = talk_of(produced(1, "t"), fetched(2, 11, {"topic": "t"}))
    folder = tmp_path / "capture"
    found = captured(folder, key, talk, records=RecordRule.HASH, bodies=bodies)
    assert_nothing_planted(folder)
    assert [row[c.SIZE] for row in found] == [row["size"] for row in traffic.expected(talk)]


def test_a_frame_that_the_connections_end_cuts_off_keeps_no_value(tmp_path: Path, key: Path) -> None:
    folder = tmp_path / "capture"
    whole = produced(1, "t").request
    for cut in range(len(whole) - len(write_batch(RECORDS)), len(whole), 23):
        talk = Talk(0, [produced(1, "t")])
        talk.chunks = [traffic.Chunk(Direction.REQUEST, whole[:cut], 5)]
        tap = tap_for(folder, key, records=RecordRule.HASH)
        played(tap, talk)
        tap.close()
        assert compact_session(folder, tap.session, handover=decoded(tap.child_input)).finished
    assert_nothing_planted(folder)
    assert all(row["note"].startswith(c.CUT) for row in frame_rows(folder))


def facts_of(found: list[dict[str, Any]], decoder: Decoder, *without: str) -> list[dict[str, Any]]:
    """The rows of a decoder, with the columns that hashing must not change."""
    names = [column.name for column in (*decoder.shared, *decoder.own)]
    made = []
    for row in found:
        frame = frame_of(row)
        for decoder_of_it in DecoderIndex([decoder]).of(frame.side, frame.dialect, frame.api_key, frame.api_version):
            for group in decoder_of_it.read(frame, Budget()):
                made += [dict(zip(names, (*group.shared, *own), strict=False)) for own in group.rows]
    return [{name: value for name, value in row.items() if name not in without} for row in made]


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_facts_of_hashed_frames_are_those_of_the_frames_as_they_arrived(tmp_path: Path, key: Path, magic: int) -> None:
    bare = [Record(4, 1_700_000_000_000, SECRET, SECRET), Record(5, 1_700_000_000_001, None, SECRET)]
    plain = write_batch(bare) if magic == 2 else write_message_set(bare, magic=magic)
    codec = Compression.GZIP
    folded = write_batch(bare, codec=codec) if magic == 2 else write_message_set(bare, magic=magic, codec=codec)
    control = end_marker_batch(
        ControlType.COMMIT, offset=6, timestamp=1, producer_id=5, producer_epoch=1, coordinator_epoch=2
    )
    parts = [plain + folded + control, folded, b"", plain + folded[:40]]
    partitions_of = [{"partition_index": place, "records": data} for place, data in enumerate(parts)]
    answer = {"responses": [{"topic": name, "partitions": partitions_of} for name in ("pay", "free")]}
    talk = talk_of(call(keys.FETCH, 11, {"topics": []}, answer, 1))
    kept = captured(tmp_path / "kept", key, talk)
    hashed_rows = captured(tmp_path / "hashed", key, talk, topic_records={"pay": RecordRule.HASH})
    assert_no_frame_is_alike(kept, hashed_rows)
    unlike = ("crc", "sampled_bytes", "folded_bytes")
    assert facts_of(hashed_rows, BATCHES, *unlike) == facts_of(kept, BATCHES, *unlike)
    # how many records a wrapper holds, only unfolding tells
    of_wrappers = ("records",) if magic < 2 else ()
    assert facts_of(hashed_rows, PARTITION_FACTS, *of_wrappers) == facts_of(kept, PARTITION_FACTS, *of_wrappers)


def assert_no_frame_is_alike(kept: list[dict[str, Any]], hashed_rows: list[dict[str, Any]]) -> None:
    alike = [one[c.FRAME] == other[c.FRAME] for one, other in zip(kept, hashed_rows, strict=True)]
    assert alike == [True, False]


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(inspect, [str(argument) for argument in arguments])


def test_a_record_is_found_by_its_key_as_it_was_before(tmp_path: Path, key: Path) -> None:
    folder = tmp_path / "capture"
    captured(folder, key, talk_of(produced(1, "t"), fetched(2, 11, {"topic": "t"})), records=RecordRule.HASH)
    asked = ("records", folder, "--json", "--key")
    with_key = run(*asked, SECRET.decode(), "--hash-key", key)
    assert with_key.exit_code == 0, with_key.output
    # where it was produced, and where it was fetched
    found = [json.loads(line) for line in with_key.stdout.splitlines()]
    assert [one["topic"] for one in found] == ["t", "t"] or len(found) == 1
    assert SECRET.decode() not in with_key.stdout
    assert run(*asked, "another", "--hash-key", key).stdout == ""
    without_key = run(*asked, SECRET.decode())
    assert without_key.stdout == ""
    hint = "; its records are hashed: inspect records --hash-key FILE finds a key as it was"
    assert hint in " ".join(without_key.stderr.split())
    assert hint in " ".join(run("exchanges", folder, "--key", SECRET.decode()).stderr.split())


def test_hashes_are_shown_and_asked_for_in_hex(tmp_path: Path, key: Path) -> None:
    folder = tmp_path / "capture"
    captured(folder, key, talk_of(produced(1, "t"), fetched(2, 11, {"topic": "t"})), records=RecordRule.HASH)
    text = HASHER.hashed(SECRET).hex()  # type: ignore[union-attr]
    of_value = HASHER.hashed(SECRET * 9).hex()  # type: ignore[union-attr]
    for asked in (("--key", text), ("--grep", f"^{text}$"), (f"value == {of_value}",)):
        found = run("records", folder, "--json", *asked)
        first = json.loads(found.stdout.splitlines()[0])
        assert (first["key"], first["value"], first["is_hashed"]) == (text, of_value, True)
        assert [one["value"] for one in first["headers"]] == [text]
    listed = run("records", folder).stdout
    assert f"key hash {text}" in listed
    assert f"header name=hash {text}" in listed
    assert text in run("records", folder, "--csv").stdout
    assert len(run("exchanges", folder, "--json", "--key", text).stdout.splitlines()) == 2
    assert (
        "  records: hashes stand in place of keys, values and headers' values\n" in run("show", folder, "0/e0").stdout
    )


@pytest.mark.parametrize(
    ("content", "mode", "reason"),
    [
        (KEY[::-1], 0o600, "is not the key by which this capture's records are hashed"),
        (KEY, 0o644, "can be read by others than its owner (its mode is 0644)"),
        (KEY[:31], 0o600, "is shorter than 32 bytes"),
    ],
)
def test_a_key_that_can_not_be_used_is_one_line(
    tmp_path: Path, key: Path, content: bytes, mode: int, reason: str
) -> None:
    folder = tmp_path / "capture"
    captured(folder, key, talk_of(produced(1, "t")), records=RecordRule.HASH)
    key.write_bytes(content)
    key.chmod(mode)
    found = run("records", folder, "--key", "k", "--hash-key", key)
    assert found.exit_code == 2
    (line,) = [line for line in found.stderr.splitlines() if line.startswith("Error")]
    assert reason in line
    assert "; right would be the key that capture.hash_key named" in line


def test_a_capture_without_hashes_has_no_key(tmp_path: Path, key: Path) -> None:
    captured(tmp_path / "capture", key, talk_of(produced(1, "t")))
    found = run("records", tmp_path / "capture", "--key", "k", "--hash-key", key)
    assert (found.exit_code, "whose records are not hashed" in found.stderr) == (2, True)


class KilledError(BaseException):
    """The compactor's process has ended, here."""


@pytest.mark.long
@pytest.mark.parametrize("is_killed", [False, True])
def test_no_planted_value_is_on_the_disk_whenever_both_processes_end(
    tmp_path: Path, key: Path, is_killed: bool
) -> None:
    talk = talk_of(*(produced(number, "t", "u") for number in range(1, 12)), cuts=300)
    last = 0
    while True:
        folder = tmp_path / f"capture-{last}"
        tap = tap_for(folder, key, records=RecordRule.HASH)
        played(tap, talk)
        begun = 0

        def step(name: str, folder: Path = folder, last: int = last) -> None:
            nonlocal begun
            assert_nothing_planted(folder)
            if begun == last:
                raise KilledError
            begun += 1

        if is_killed:
            kill(tap)
        else:
            tap.close()
        try:
            compact_session(folder, tap.session, before_step=step, handover=decoded(tap.child_input))
        except KilledError:
            pass
        else:
            break
        assert_nothing_planted(folder)
        compact(folder)
        assert_nothing_planted(folder)
        last += 1
    assert last > 20
