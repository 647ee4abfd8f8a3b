"""Tests of the command `import`: what it prints, its exit codes, and what is in the capture afterwards."""

from __future__ import annotations

import hashlib
import json
import random
from itertools import count
from pathlib import Path

import pytest
from click.testing import CliRunner

from proxy.cli import main
from recorder.capture import frames as c
from recorder.capture.fact_files import State, state_of, stems
from recorder.capture.record_rules import RecordRule
from recorder.capture.session import SPOOL_FOLDER
from recorder.inspect.summary import summarize
from tests.recorder.capture.looks import assert_holds, event_rows, frame_rows
from tests.recorder.capture.test_record_hashing import KEY, captured
from tests.recorder.capture.test_redacting import a_talk as a_record_talk
from tests.recorder.capture.traffic import expected
from tests.recorder.pcap.dumps import as_packets, pcap, pcapng, sent, write
from tests.recorder.pcap.imports import a_talk, lockstep


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["import", *arguments])
    return result.exit_code, result.output


@pytest.mark.real
def test_a_dump_becomes_a_further_session_with_facts(tmp_path: Path) -> None:
    one, capture = a_talk(random.Random(1)), tmp_path / "capture"
    content = pcapng(as_packets(sent(one)))
    for number in range(2):
        code, told = run(str(write(tmp_path / "a.pcapng", content)), str(capture))
        assert code == 0, told
        assert "imported 1 connection, " in told
        assert len({row[c.SESSION] for row in frame_rows(capture)}) == number + 1
    sessions = {row[c.SESSION] for row in frame_rows(capture)}
    for session in sessions:
        assert_holds([row for row in frame_rows(capture) if row[c.SESSION] == session], expected(one))
    assert all(state_of(capture, stem) is State.CURRENT for stem in stems(capture))
    told_of = [row for row in event_rows(capture, c.EVENT_SESSION) if row[c.CAUSE] == "imported"]
    source = json.loads(told_of[0][c.DETAIL])
    assert len(told_of) == 2
    assert (source["file"], source["bytes"]) == ("a.pcapng", len(content))
    assert source["sha256"] == hashlib.sha256(content).hexdigest()


@pytest.mark.real
def test_a_choice_of_what_is_imported_is_told_as_that_of_a_recording(tmp_path: Path) -> None:
    file = write(tmp_path / "a.pcap", pcap(as_packets(sent(a_talk(random.Random(1))))))
    code, told = run(str(file), str(tmp_path / "capture"), "--only-topics", "orders-*", "--share", "0.99")
    assert code == 0, told
    missing = summarize(tmp_path / "capture").losses.missing
    assert missing.only_topics == ['capture.only.topics = ["orders-*"]']
    assert missing.samples == ["capture.share = 0.99"]


@pytest.mark.real
def test_a_cut_file_is_imported_as_far_as_it_goes(tmp_path: Path) -> None:
    one = lockstep(random.Random(2))
    file = write(tmp_path / "a.pcap", pcap(as_packets(sent(one, end=None)))[:-5])
    code, told = run(str(file), str(tmp_path / "capture"))
    assert code == 2
    assert "a.pcap is cut within its last packet; what was read before is imported" in told
    rows = frame_rows(tmp_path / "capture")
    assert [row["frame"] for row in rows] == [row["frame"] for row in expected(one)][: len(rows)]
    assert len(rows) >= len(one.calls)


@pytest.mark.real
def test_records_are_hashed_as_a_proxy_hashes_them(tmp_path: Path) -> None:
    talk, capture, key = a_record_talk(), tmp_path / "capture", tmp_path / "hash.key"
    file = write(tmp_path / "a.pcap", pcap(as_packets(sent(talk))))
    key.write_bytes(KEY)
    asked = (str(file), str(capture), "--port", "9092", "--topic-records", "pay*=hash", "--hash-key", str(key))
    key.chmod(0o644)
    code, told = run(*asked)
    assert (code, "right would be" in told) == (2, True)
    assert not capture.exists()
    key.chmod(0o600)
    code, told = run(*asked)
    assert code == 0, told
    twin = captured(tmp_path / "twin", key, talk, topic_records={"pay*": RecordRule.HASH}, records=RecordRule.KEEP)
    columns = ("kind", "exchange", "size", "frame", "records", "batches")
    kept, wanted = ([[row[name] for name in columns] for row in found] for found in (frame_rows(capture), twin))
    assert kept == wanted
    assert any(row["records"] == c.HASH for row in twin)
    assert event_rows(capture, c.EVENT_GAP) == []
    assert not list((capture / SPOOL_FOLDER).rglob("*.log"))


@pytest.mark.parametrize(
    ("content", "arguments", "told"),
    [
        (b"text", (), "is no packet dump; right would be a file of tcpdump -w, pcap or pcapng"),
        (pcap([]), (), "holds no Kafka traffic; right would be a dump of brokers' ports, or --port"),
        (
            pcap([(0, bytes(60), 60)], 147),
            (),
            "1 packet of a link type that is not read, known link types are Ethernet",
        ),
        (pcap([]), ("--dialect", "kafka-0.7"), "right would be --port 9092 as well"),
        (pcap([]), ("--tls-keys", "a"), "right would be --port 9093 as well"),
        (pcap([]), ("--only-apis", "Fetsch"), "which is no API, but Fetch is"),
        (pcap([]), ("--only-topics", "a/b"), "has 'a/b', which can match no topic"),
        (pcap([]), ("--bodies", "tail"), 'is neither "full" nor "head" nor a size'),
        (pcap([]), ("--records", "hash"), "right would be --hash-key FILE"),
        (pcap([]), ("--topic-records", "a=hash"), "right would be --hash-key FILE"),
        (pcap([]), ("--topic-records", "orders"), "right would be --topic-records 'payments-*=drop'"),
        (pcap([]), ("--topic-records", "a/b=drop"), "can match no topic"),
    ],
    ids=count(),
)
def test_what_can_not_be_imported_is_told_in_a_line(
    tmp_path: Path, content: bytes, arguments: tuple[str, ...], told: str
) -> None:
    file = write(tmp_path / "a", content)
    code, output = run(str(file), str(tmp_path / "capture"), *arguments)
    assert code == 2
    assert told in output
    assert not (tmp_path / "capture").exists()
