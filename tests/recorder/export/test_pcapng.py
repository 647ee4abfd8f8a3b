"""Tests of packet dumps of captures: tshark reads them, and imported they are the capture again."""

from __future__ import annotations

import random
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from proxy.cli import main
from proxy.schema.flags import MAIN
from proxy.wire.dialects import Dialect
from proxy.wire.keys import METADATA, PRODUCE
from recorder.capture import frames as c
from recorder.capture.compactor import compact
from recorder.capture.session import RecordSettings, WhenFull
from recorder.capture.tap import open_tap
from recorder.export.pcapng import Exported, export
from recorder.pcap.dump import packets
from recorder.pcap.importing import Import, Session
from recorder.query.language import parse
from recorder.query.shorthand import Filter
from recorder.reading.capture import open as open_capture
from tests.recorder.capture.looks import event_rows, frame_rows
from tests.recorder.capture.traffic import Call, Player, Talk, cut, framed, some_talks
from tests.recorder.pcap.imports import SOURCE
from tests.recorder.small_capture import everything, write
from tests.sweeps import examples

# what an import can't know: the proxy's nodes and names, what it has masked, how it was told of time
OF_THE_PROXY = {c.SESSION, c.NODE, c.PRINCIPAL, c.MASKED, c.MONO_NS, c.FIRST_MONO_NS, "at"}
WHOLE_RECORD = RecordSettings(cluster=MAIN, when_full=WhenFull.WAIT)


def recorded(folder: Path, talks: list[Talk], **settings: Any) -> None:
    for number, talk in enumerate(talks):
        talk.client = f"10.0.0.{number + 1}:5555"
    tap = open_tap(folder, RecordSettings(cluster=MAIN, **settings))
    Player(tap).all_of(talks)
    tap.close()
    assert not compact(folder).failed


def exported(folder: Path, file: Path, wanted: str | None = None) -> Exported:
    with file.open("wb") as opened:
        return export(open_capture(folder), None if wanted is None else Filter(parse(wanted)), opened, "test")


def imported(file: Path, folder: Path) -> None:
    session = Session(lambda clock: open_tap(folder, WHOLE_RECORD, clock=clock), SOURCE, Dialect.KAFKA)
    made = Import(session, [19092])
    for one in packets(file):
        made.take(one.at_ns, one.link, one.data)
    made.close()
    session.close()
    assert not compact(folder).failed


def shown(folder: Path) -> list[dict[str, Any]]:
    """The rows of frames by client and sequence, without what an import can't know."""
    found = sorted(frame_rows(folder), key=lambda row: (row[c.CLIENT], row[c.SEQUENCE]))
    return [{name: value for name, value in row.items() if name not in OF_THE_PROXY | {c.CONNECTION}} for row in found]


@pytest.mark.real
@pytest.mark.sweep
@given(seed=st.integers(0, 2**32))
@examples(100, deadline=None)
def test_an_exported_capture_imported_is_the_capture(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    rng, folder = random.Random(seed), tmp_path_factory.mktemp("captures")
    talks = some_talks(rng, 3, 12, rng.choice([50, 4000]))
    recorded(folder / "first", talks)
    done = exported(folder / "first", folder / "dump.pcapng")
    imported(folder / "dump.pcapng", folder / "second")
    assert shown(folder / "second") == shown(folder / "first")
    assert (done.connections, done.frames) == (3, len(frame_rows(folder / "first")))
    assert not event_rows(folder / "second", c.EVENT_GAP)


def test_large_frames_are_several_segments(tmp_path: Path) -> None:
    rng = random.Random(2)
    body = rng.randbytes(300_000)
    one = some_talks(rng, 1, 3, 100_000)[0]
    one.calls.append(Call(METADATA, 5, 7, "one", framed(b"\0\3\0\5\0\0\0\7\0\3one" + body), framed(b"\0\0\0\7" + body)))
    one.chunks.clear()
    recorded(tmp_path / "first", [cut(rng, one, 60_000)])
    exported(tmp_path / "first", tmp_path / "dump.pcapng")
    assert max(len(packet.data) for packet in packets(tmp_path / "dump.pcapng")) <= 65_535
    imported(tmp_path / "dump.pcapng", tmp_path / "second")
    assert shown(tmp_path / "second") == shown(tmp_path / "first")


def read_by_tshark(file: Path, *fields: str) -> list[tuple[str, ...]]:
    command = ["tshark", "-n", "-r", str(file), "-d", "tcp.port==19092,kafka", "-T", "fields"]
    for field in fields:
        command += ["-e", field]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [tuple(line.split("\t")) for line in told.splitlines()]


@pytest.mark.real
def test_tshark_reads_the_frames_and_what_the_capture_knows(tmp_path: Path) -> None:
    recorded(tmp_path / "first", some_talks(random.Random(3), 2, 20, 4000))
    exported(tmp_path / "first", tmp_path / "dump.pcapng")
    read = read_by_tshark(
        tmp_path / "dump.pcapng", "kafka.api_key", "kafka.correlation_id", "frame.comment", "tcp.analysis.lost_segment"
    )
    rows = frame_rows(tmp_path / "first")
    requests = [row for row in rows if row[c.KIND] == c.REQUEST]
    frames = [(key, int(number)) for key, number, comment, _ in read if number and comment]
    assert sorted(number for _, number in frames) == sorted(row[c.CORRELATION_ID] for row in rows)
    # a request has its API; a response mostly has that of its request
    missing = Counter((str(row[c.API_KEY]), row[c.CORRELATION_ID]) for row in requests) - Counter(frames)
    assert not missing
    assert not any(lost for *_, lost in read)
    told = "\n".join(comment for _, _, comment, _ in read)
    assert all(f"/e{row[c.EXCHANGE]};" in told for row in requests)
    assert "latency " in told
    assert "client id one" in told
    assert "masked, here zeros" in told


@pytest.mark.real
def test_a_gap_is_missing_bytes_with_a_comment(tmp_path: Path) -> None:
    talks = some_talks(random.Random(4), 1, 60, 4000)
    tap = open_tap(tmp_path / "first", RecordSettings(cluster=MAIN))
    player = Player(tap)
    player.open(talks[0])
    half = len(talks[0].chunks) // 2
    for number, chunk in enumerate(talks[0].chunks):
        if number == half:
            tap.lost(0, chunk.direction, "queue_full", chunk.at_ns)
        player.play(0, chunk)
    player.close(0)
    tap.close()
    compact(tmp_path / "first")
    (gap,) = event_rows(tmp_path / "first", c.EVENT_GAP)
    exported(tmp_path / "first", tmp_path / "dump.pcapng")
    read = read_by_tshark(tmp_path / "dump.pcapng", "frame.comment", "tcp.analysis.lost_segment")
    assert [comment for comment, _ in read if comment.startswith(f"gap (queue_full): {gap[c.BYTES]} bytes")]
    assert any(lost for _, lost in read)


def test_a_filter_chooses_exchanges(tmp_path: Path) -> None:
    recorded(tmp_path / "first", some_talks(random.Random(5), 2, 30, 4000))
    exported(tmp_path / "first", tmp_path / "dump.pcapng", "api == Produce")
    imported(tmp_path / "dump.pcapng", tmp_path / "second")
    kept = [row for row in shown(tmp_path / "first") if row["api_key"] == PRODUCE]
    assert [row["frame"] for row in shown(tmp_path / "second")] == [row["frame"] for row in kept]


def test_what_was_left_out_is_zeros_of_its_length(tmp_path: Path) -> None:
    recorded(tmp_path / "first", some_talks(random.Random(6), 1, 20, 4000), bodies="head")
    exported(tmp_path / "first", tmp_path / "dump.pcapng")
    imported(tmp_path / "dump.pcapng", tmp_path / "second")
    first, second = shown(tmp_path / "first"), shown(tmp_path / "second")
    assert [row["size"] for row in second] == [row["size"] for row in first]
    assert any(row["omitted"] for row in first)


def test_every_kind_of_row_is_exported(tmp_path: Path) -> None:
    write(tmp_path / "capture", "frames", everything())
    result = CliRunner().invoke(main, ["export", "--pcapng", str(tmp_path / "capture"), str(tmp_path / "dump.pcapng")])
    assert result.exit_code == 0, result.output
    assert len([*packets(tmp_path / "dump.pcapng")]) >= len(everything())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["capture"], "nothing says what to export"),
        (["capture", "dump.pcapng"], "right would be --pcapng as well"),
        (["--pcapng", "capture"], "right would be --pcapng capture dump.pcapng"),
        (["--pcapng", "capture", "old.pcapng"], "exists"),
        (["--pcapng", "capture", "new.pcapng", "--where", "api =="], "^"),
        (["capture", "--cloudevents", "findings"], "right would be --bootstrap broker:9092 as well"),
    ],
)
def test_a_wrong_command_line_is_told_what_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "capture", "frames", everything())
    (tmp_path / "old.pcapng").touch()
    result = CliRunner().invoke(main, ["export", *arguments])
    assert result.exit_code == 2
    assert told in result.output
    assert not (tmp_path / "new.pcapng").exists()
