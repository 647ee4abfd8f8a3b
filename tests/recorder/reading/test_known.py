"""Tests that what facts tell of a capture is what its frames tell: exchanges, elements, records, counts, the unsure."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import recorder
from proxy.wire import keys, records
from recorder.capture.fact_maker import make_missing
from recorder.capture.partitions import DONE_FOLDER, FACTS_FOLDER
from recorder.capture.reader import files
from recorder.capture.session import RecordSettings
from recorder.capture.tap import open_tap
from recorder.facts_at_hand import facts_at_hand
from recorder.reading import capture as reading
from recorder.reading.capture import Capture
from recorder.reading.known import OF_PARTITIONS, Known
from tests.recorder.running import run
from tests.recorder.small_capture import everything, request, response, write
from tests.sweeps import examples

Row = dict[str, Any]
Captures = tuple[Capture, list[Capture]]
IDS = {"orders": bytes(15) + b"\7", "payments": bytes(15) + b"\x08", "unnamed": bytes(15) + b"\x09"}
SESSIONS = ("20261121T120000Z-abc", "20261121T120001Z-def")
CODES = (0, 0, 0, 0, 0, 6, 3, 27)
SPOILT: tuple[Row, ...] = (
    {"frame": None, "stored": 0},
    {"frame": None, "stored": 0, "omitted": [{"start": 8, "length": 20}]},
    {"api_version": 99},
    {"masked": [{"start": 0, "length": 90}]},
)


def batch(rng: random.Random) -> bytes:
    codec = rng.choice([records.Compression.NONE, records.Compression.NONE, records.Compression.GZIP])
    made = [records.Record(at, 1_000 + at, b"k%d" % rng.randrange(3), b"v%d" % at) for at in range(rng.randrange(1, 4))]
    data = records.write_batch(made, codec=codec, producer_id=rng.choice([-1, 5]))
    # now and then a batch that is damaged, and one with something behind it
    return rng.choice([data] * 8 + [data[:-1] + bytes([data[-1] ^ 1]), data + bytes(40)])


def produce(rng: random.Random) -> tuple[int, int, Row, Row]:
    named = [(rng.choice(["orders", "payments"]), rng.randrange(3), rng.choice(CODES)) for _ in range(rng.randrange(3))]
    asked = [{"name": name, "partition_data": [{"index": at, "records": batch(rng)}]} for name, at, _ in named]
    told = [
        {"name": name, "partition_responses": [{"index": at, "error_code": code, "base_offset": rng.randrange(90)}]}
        for name, at, code in named
    ]
    return keys.PRODUCE, 9, {"acks": rng.choice([-1, 1]), "topic_data": asked}, {"responses": told}


def fetch(rng: random.Random) -> tuple[int, int, Row, Row]:
    topic_id, at, code = rng.choice([*IDS.values()]), rng.randrange(3), rng.choice(CODES)
    wanted = [{"topic_id": topic_id, "partitions": [{"partition": at, "fetch_offset": rng.randrange(9)}]}]
    held = {"partition_index": at, "error_code": code, "high_watermark": 50, "records": rng.choice([b"", batch(rng)])}
    # an answer in a session names what its request does not
    asked = {"max_wait_ms": 500, "session_id": 3, "topics": rng.choice([wanted, []])}
    told = {"error_code": rng.choice(CODES), "responses": [{"topic_id": topic_id, "partitions": [held]}]}
    return keys.FETCH, 13, asked, told


def commit(rng: random.Random) -> tuple[int, int, Row, Row]:
    at, name = rng.randrange(3), rng.choice(["orders", "payments"])
    topics = [{"name": name, "partitions": [{"partition_index": at, "committed_offset": rng.randrange(9)}]}]
    asked = {"group_id": rng.choice(["billing", "audit"]), "member_id": "m", "topics": rng.choice([topics, []])}
    done = [{"name": name, "partitions": [{"partition_index": at, "error_code": rng.choice(CODES)}]}]
    return keys.OFFSET_COMMIT, 8, asked, {"topics": done}


def offsets(rng: random.Random) -> tuple[int, int, Row, Row]:
    groups = [{"group_id": name} for name in rng.sample(["billing", "audit"], rng.randrange(1, 3))]
    of_orders = [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 4}]}]
    told = [group | {"error_code": rng.choice(CODES), "topics": of_orders} for group in groups]
    return keys.OFFSET_FETCH, 8, {"groups": groups}, {"groups": told}


def heartbeat(rng: random.Random) -> tuple[int, int, Row, Row]:
    return keys.HEARTBEAT, 4, {"group_id": "billing", "member_id": "m"}, {"error_code": rng.choice(CODES)}


def metadata(rng: random.Random) -> tuple[int, int, Row, Row]:
    topics = [{"name": name, "topic_id": IDS[name], "error_code": rng.choice(CODES)} for name in ("orders", "payments")]
    return keys.METADATA, 12, {"topics": [{"name": "orders"}]}, {"topics": topics}


def versions(rng: random.Random) -> tuple[int, int, Row, Row]:
    name = rng.choice(["librdkafka", "", "sarama"])
    return keys.API_VERSIONS, 3, {"client_software_name": name, "client_software_version": "2"}, {"error_code": 35}


KINDS = (produce, produce, fetch, fetch, commit, offsets, heartbeat, metadata, versions)


def generated(seed: int, count: int = 150) -> Iterator[Row]:
    """Frames of exchanges on a few connections: answered late, never, without a request; some of them spoilt."""
    rng = random.Random(seed)
    sequences = dict.fromkeys(((session, number) for session in SESSIONS for number in range(20, 23)), 0)
    for number in range(count):
        place = rng.choice([*sequences])
        key, version, asked, told = rng.choice(KINDS)(rng)
        shared = {"session": place[0], "exchange": number, "client_id": rng.choice(["writer", "reader"])}
        missing = rng.choice([*["none"] * 8, "request", "response"])
        shared |= {"dialect": rng.choice([*["kafka"] * 20, "kafka-0.7"])}
        for kind, delay in (("request", 0.0), ("response", rng.choice([0.1, 0.2, 40]))):
            if kind == missing:
                continue
            sequences[place] += 1
            make, values = (request, asked) if kind == "request" else (response, told)
            row = make(number / 3 + delay, place[1], sequences[place], key, version, values=values, **shared)
            cut = {"frame": row["frame"][: rng.randrange(len(row["frame"]))], "note": "cut: the connection ended"}
            spoilt = rng.choice([{}] * 12 + [*SPOILT, cut])
            row |= {"stored": len(spoilt.get("frame") or row["frame"])} | spoilt
            yield row | {"size": len(row["frame"] or b"x" * 30)}


def written(folder: Path, seed: int) -> Path:
    """A capture with three files of each session; exchanges begin in one of them and end in another."""
    rows = [*everything(), *generated(seed)]
    for session in SESSIONS:
        mine = sorted((row for row in rows if row["session"] == session), key=lambda row: row["at_ns"])
        third = -(-len(mine) // 3)
        for part in range(3):
            write(folder, "frames", mine[part * third : (part + 1) * third], first=part + 1, row_group_size=40)
    return folder


def as_lines(text: str) -> list[Row]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Captures:
    """A capture without facts, and the same with facts of all files, and of some."""
    plain = written(tmp_path_factory.mktemp("plain") / "capture", 1)
    found, whole = [], Path(shutil.copytree(plain, plain.parent / "whole"))
    assert make_missing(whole) == []
    for number, lacking in enumerate(([], ["abc-1-1", "def-3-3"], ["abc-2-2"])):
        folder = Path(shutil.copytree(whole, plain.parent / f"{number}"))
        for marker in (folder / FACTS_FOLDER / DONE_FOLDER).iterdir():
            if marker.name.endswith(tuple(lacking)):
                marker.unlink()
        found.append(recorder.open(folder))
    return recorder.open(plain), found


CONDITIONS = [
    *("api == Produce", "api == Fetch", "client == writer", "connection in (1, 20)", "size > 100", "latency > 1ms"),
    *("at >= 12:00:20", "at < 12:00:33", "outcome == answered", "software == librdkafka", "outcome == request_lost"),
    *("topic == orders", "topic != orders", "topic ~ 'p*'", "partition == 1", "error", "error != NONE", "error == 6"),
    *("records > 1", "bytes > 50", "producer_id == 5", "fetch_offset > 2", "high_watermark == 50", "base_offset > 9"),
    *("group == billing", "member == m", "codec == gzip", "key == k0", "value ~ 'v*'", "offset >= 1", "acks == 1"),
    *("topic == nothing", "committed_offset > 3", "topic in (orders, payments)", "error == NONE"),
]


def texts() -> st.SearchStrategy[str]:
    def combined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        pairs = st.tuples(parts, st.sampled_from(["and", "and", "or"]), parts).map(lambda each: f"({' '.join(each)})")
        return st.one_of(pairs, parts.map(lambda each: f"not ({each})"))

    return st.recursive(st.sampled_from(CONDITIONS), combined, max_leaves=4)


def exchanges_of(capture: Capture, text: str, columns: frozenset[str], normal: str = "") -> Any:
    found = capture.exchanges(text, columns=columns, with_normal=capture.filter(normal).node if normal else None)
    every = [(found.values(pair, ["session", "connection", "exchange", *columns]), pair.reading) for pair in found]
    return sorted(map(str, every)), found.unsure


def frames_of(capture: Capture, text: str) -> Any:
    found = capture.rows(text)
    # bytes come where they had to be read
    return [{**row, "frame": None} for row in found], found.unsure


def records_of(capture: Capture, text: str) -> Any:
    found = capture.records(text)
    return [*found], found.unsure


@pytest.mark.real
@examples(40)
@given(
    text=texts(),
    columns=st.sampled_from([(), OF_PARTITIONS, ("topic", "error")]),
    normal=st.sampled_from(["", "error != NONE"]),
    which=st.integers(0, 2),
)
def test_exchanges_with_facts_are_those_of_frames(
    captures: Captures, text: str, columns: Any, normal: str, which: int
) -> None:
    plain, with_facts = captures
    asked = text, frozenset[str](columns), normal
    assert exchanges_of(with_facts[which], *asked) == exchanges_of(plain, *asked)


@pytest.mark.real
@examples(20)
@given(text=texts(), which=st.integers(0, 2))
def test_frames_with_facts_are_those_that_pass_by_themselves(captures: Captures, text: str, which: int) -> None:
    plain, with_facts = captures
    assert frames_of(with_facts[which], text) == frames_of(plain, text)


@pytest.mark.real
@examples(20)
@given(text=texts(), which=st.integers(0, 2))
def test_records_with_facts_are_those_of_frames(captures: Captures, text: str, which: int) -> None:
    plain, with_facts = captures
    assert records_of(with_facts[which], text) == records_of(plain, text)


@pytest.mark.real
@pytest.mark.parametrize("command", ["topics", "errors", "clients", "exchanges", "frames"])
@pytest.mark.parametrize("flags", [(), ("--topic", "orders"), ("--errors",), ("--client", "reader", "--all-errors")])
def test_lists_with_facts_are_those_of_frames(captures: Captures, command: str, flags: tuple[str, ...]) -> None:
    plain, with_facts = captures
    expected = run("inspect", command, plain.folder, *flags, "--json")
    assert expected.exit_code == 0
    for capture in with_facts:
        found = run("inspect", command, capture.folder, *flags, "--json")
        assert as_lines(found.stdout) == as_lines(expected.stdout)
        assert found.stderr.splitlines()[-1:] == expected.stderr.splitlines()[-1:]


def spoil(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def other_number(marker: Path) -> None:
    marker.write_bytes(marker.read_bytes().replace(b'"number":', b'"number":9'))


@pytest.mark.parametrize("what", ["damaged", "half written", "of another number", "of other frames", "no marker"])
def test_facts_that_do_not_count_are_not_asked(captures: Captures, tmp_path: Path, what: str) -> None:
    plain, with_facts = captures
    folder = Path(shutil.copytree(str(with_facts[0].folder), tmp_path / "capture"))
    facts = list((folder / FACTS_FOLDER).rglob("*.parquet"))
    for marker in (folder / FACTS_FOLDER / DONE_FOLDER).iterdir():
        if what == "of another number":
            other_number(marker)
        elif what == "no marker":
            marker.unlink()
    for file in facts:
        if what == "damaged":
            spoil(file)
        elif what == "half written":
            file.write_bytes(file.read_bytes()[:-20])
        elif what == "of other frames":
            # all facts are those of no frame at all
            table = pq.read_table(file, partitioning=None)
            pq.write_table(table.slice(0, 0), file)
    text = "topic == orders and error"
    assert exchanges_of(Capture(folder, []), text, frozenset()) == exchanges_of(plain, text, frozenset())


def test_facts_that_can_not_be_read_in_the_middle_give_way_to_frames(captures: Captures, tmp_path: Path) -> None:
    """They were whole when the question began."""
    plain, with_facts = captures
    folder = Path(shutil.copytree(str(with_facts[0].folder), tmp_path / "capture"))
    capture = Capture(folder, [])
    found = capture.exchanges("topic == orders", columns=["partition"])
    shutil.rmtree(folder / FACTS_FOLDER / "partitions")
    listed = [found.values(pair, ["exchange", "partition"]) for pair in found]
    twin = plain.exchanges("topic == orders", columns=["partition"])
    assert listed == [twin.values(pair, ["exchange", "partition"]) for pair in twin]


def test_facts_that_take_more_than_the_budget_are_not_read(captures: Captures) -> None:
    _, with_facts = captures
    folder = with_facts[0].folder
    assert isinstance(folder, Path)
    known = Known(facts_at_hand(folder, make=False).files, most=1000)
    (file, *_) = files(folder)
    assert known.read(file, "frames", ["session", "sequence"]) is None
    assert not known.has(file)


def test_a_question_about_all_of_a_large_capture_makes_its_facts_once(
    captures: Captures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, _ = captures
    folder = Path(shutil.copytree(str(plain.folder), tmp_path / "capture"))
    # a small one is read sooner than its facts are made
    run("inspect", "topics", folder)
    monkeypatch.setattr(reading, "WORTHWHILE", 1)
    run("inspect", "topics", folder, "--since", "12:00:30")
    run("inspect", "exchanges", folder, "--topic", "orders")
    assert not (folder / FACTS_FOLDER).exists()
    first, second = run("inspect", "topics", folder), run("inspect", "topics", folder)
    assert "note: made the facts of 6 files of frames" in first.stderr
    assert "made the facts" not in second.stderr
    assert first.stdout == second.stdout == run("inspect", "topics", plain.folder).stdout


def test_no_facts_are_made_of_a_capture_that_is_being_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "WORTHWHILE", 1)
    write(tmp_path, "frames", everything())
    tap = open_tap(tmp_path, RecordSettings())
    try:
        run("inspect", "topics", tmp_path)
        assert not (tmp_path / FACTS_FOLDER).exists()
    finally:
        tap.close()
    assert "made the facts" in run("inspect", "topics", tmp_path).stderr
