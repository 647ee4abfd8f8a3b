"""Tests of captures from anywhere: commands read what is there, change nothing else, and give no traceback."""

from __future__ import annotations

import json
import os
import random
import shutil
import stat
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from crc32c import crc32c

from proxy.files import Folder
from proxy.wire.keys import METADATA
from recorder.capture import spool
from recorder.capture.session import RecordSettings
from recorder.capture.tap import open_tap
from tests.brokers.waiting import PATIENCE
from tests.recorder.capture import logged, traffic
from tests.recorder.capture.traffic import Player
from tests.recorder.running import run

SESSION = "20260101T000000Z-abcdef"
LATER = "20260102T000000Z-abcdef"


def record(folder: Path, session: str = SESSION, calls: int = 10, **settings: Any) -> Path:
    """Records a closed session; returns its folder in the spool."""
    rng = random.Random(1)
    tap = open_tap(folder, RecordSettings(**settings), session)
    player = Player(tap)
    talk = traffic.cut(rng, traffic.talk(rng, 0, calls), 300)
    player.open(talk)
    for chunk in talk.chunks:
        player.play(0, chunk)
        tap.flush()
    player.close(0)
    tap.close()
    return folder / "_spool" / session


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder that no command may touch."""
    folder = tmp_path / "outside"
    folder.mkdir()
    for name in ("precious", "00000001.log", "00000001.state", "writer.lock", "status.json"):
        (folder / name).write_text("precious")
    return folder


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return tmp_path / "capture"


def everything(folder: Path) -> dict[str, object]:
    """Returns all that is below a folder: files with their bytes, links with their targets, the rest with its type."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        link = os.readlink(path) if stat.S_ISLNK(mode) else None
        found[str(path.relative_to(folder))] = link or (path.read_bytes() if stat.S_ISREG(mode) else stat.S_IFMT(mode))
    return found


def assert_no_traceback(result: Result) -> None:
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output


# places for a link in a capture with a finished session, and the link's target
LINKS = {
    "session": f"_spool/{LATER}",
    "finished session": "_spool/.gone.done",
    "hidden status": f"_spool/{SESSION}/.status.json",
    "status": f"_spool/{SESSION}/status.json",
    "hidden state": f"_spool/{SESSION}/.00000001.state",
    "state": f"_spool/{SESSION}/00000009.state",
    "segment": f"_spool/{SESSION}/00000009.log",
    "compactor's lock": f"_spool/{SESSION}/compactor.lock",
    "events": "events",
    "frames": "frames",
    "a date": "frames/date=2026-01-01",
    "an hour": "events/date=2026-01-01/hour=00",
}
FOLDERS = ("session", "finished session", "events", "frames", "a date", "an hour")


@pytest.mark.parametrize("command", ["inspect", "compact"])
@pytest.mark.parametrize("place", LINKS)
def test_nothing_is_read_written_or_removed_behind_a_link(capture, outside, command, place) -> None:
    record(capture)
    link = capture / LINKS[place]
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(outside if place in FOLDERS else outside / "precious")
    before = everything(outside)
    assert_no_traceback(run(command, capture))
    assert everything(outside) == before
    assert link.is_symlink()


@pytest.mark.parametrize("place", ["session", "finished session"])
def test_a_recording_proxy_follows_no_links_in_its_capture(capture, outside, place) -> None:
    """A recording proxy's compactor takes over sessions that other proxies left."""
    record(capture)
    (capture / LINKS[place]).symlink_to(outside)
    before = everything(outside)
    run("compact", capture)
    record(capture, "20260103T000000Z-abcdef")
    assert everything(outside) == before


# a FIFO in place of one of these would block any process that opens it
FIFOS = {
    "segment": f"_spool/{SESSION}/00000001.log",
    "state": f"_spool/{SESSION}/00000001.state",
    "status": f"_spool/{SESSION}/status.json",
    "writer's lock": f"_spool/{SESSION}/writer.lock",
    "rows": "frames/date=2026-01-01/hour=00/s-00000001-00000001.parquet",
    "told rows": "events/date=2026-01-01/hour=00/s-00000001-00000001.parquet",
}


@pytest.mark.timeout(PATIENCE)
@pytest.mark.parametrize("command", ["inspect", "compact"])
@pytest.mark.parametrize("place", FIFOS)
def test_a_fifo_is_not_waited_for(capture, command, place) -> None:
    record(capture)
    path = capture / FIFOS[place]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    result = run(command, capture)
    assert_no_traceback(result)
    assert stat.S_ISFIFO(path.lstat().st_mode)
    if command == "inspect":
        assert f"{path.name} is a FIFO, not a file" in result.output


@pytest.mark.parametrize("command", ["inspect", "compact"])
def test_a_session_that_is_refused_stays_as_it_is_to_the_last_file(capture, command) -> None:
    session = record(capture)
    (session / ".status.json").symlink_to("elsewhere")
    before = everything(capture)
    result = run(command, capture)
    assert result.exit_code != 0
    assert f"session {SESSION} is left as it is" in result.output
    assert everything(capture) == before


def swap(session: Path, one: int, other: int) -> None:
    paths = [session / f"{number:08d}.log" for number in (one, other)]
    logs = [path.read_bytes() for path in paths]
    for path, log in zip(paths, reversed(logs), strict=True):
        path.write_bytes(log)


def in_the_way(session: Path, name: str, make: Callable[[Path], object]) -> None:
    """A file has the name of a future file of a segment's rows, in any hour."""
    hour = session.parents[1] / "frames" / "date=2026-01-01" / "hour=00"
    hour.mkdir(parents=True)
    make(hour / name)


ROWS = f"{SESSION}-00000003-00000003.parquet"
# faults that only show when part of the session has been read
LATE: dict[str, Callable[[Path], object]] = {
    "segments that have changed places": lambda session: swap(session, 3, 4),
    "a later segment of a newer format": lambda session: (session / "00000003.log").write_bytes(newer(b"")),
    "a later segment twice": lambda session: shutil.copy(session / "00000003.log", session / "00000004.log"),
    "a folder for rows": lambda session: in_the_way(session, ROWS, Path.mkdir),
    "a link for rows": lambda session: in_the_way(session, ROWS, lambda path: path.symlink_to("elsewhere")),
    "a FIFO for rows in the making": lambda session: in_the_way(session, f".{ROWS}", os.mkfifo),
}


@pytest.mark.parametrize("what", LATE)
def test_no_part_of_a_refused_session_is_compacted(capture, what) -> None:
    LATE[what](record(capture, segment=900))
    before = everything(capture)
    result = run("compact", capture)
    assert result.exit_code == 1
    assert f"session {SESSION} is left as it is" in result.output
    assert everything(capture) == before


ARABIC = "\N{ARABIC-INDIC DIGIT ZERO}" * 7 + "\N{ARABIC-INDIC DIGIT NINE}"
OTHERS = {"nine digits": "000000009.log", "Arabic": f"{ARABIC}.log", "22 digits": "9" * 22 + ".log"}
OTHERS |= {"state of nine digits": "000000001.state", "zero": "00000000.log", "Arabic state": f"{ARABIC}.state"}


@pytest.mark.parametrize("name", OTHERS.values(), ids=OTHERS)
def test_a_file_that_is_called_almost_like_one_of_ours_is_in_nobodys_way_and_stays(capture, name) -> None:
    (record(capture) / name).write_text("precious")
    result = run("compact", capture)
    assert (result.exit_code, result.stderr) == (0, "")
    assert everything(capture / "_spool") == {
        f".{SESSION}.done": stat.S_IFDIR,
        f".{SESSION}.done/{name}": b"precious",
    }


def folder_with_a_note(path: Path) -> None:
    path.mkdir()
    (path / "note.txt").write_text("precious")


IN_THE_WAY: dict[str, Callable[[Path], object]] = {
    "a file": Path.touch,
    "a link": lambda path: path.symlink_to("elsewhere"),
    "a folder": folder_with_a_note,
}


@pytest.mark.parametrize("what", IN_THE_WAY)
def test_a_session_finds_another_name_to_go_by(capture, what) -> None:
    record(capture)
    IN_THE_WAY[what](capture / "_spool" / f".{SESSION}.done")
    before = everything(capture / "_spool")
    result = run("compact", capture)
    assert (result.exit_code, result.stderr) == (0, "")
    after = everything(capture / "_spool")
    assert after == {name: content for name, content in before.items() if not name.startswith(SESSION)}


@pytest.mark.parametrize("command", ["inspect", "compact"])
def test_a_folder_that_cannot_be_removed_costs_no_summary(capture, command, monkeypatch) -> None:
    record(capture)
    (capture / "_spool" / ".gone.done").mkdir()
    remove = Folder.remove_folder

    def refused(folder: Folder, name: str) -> None:
        if name == ".gone.done":
            raise PermissionError(13, "Permission denied")
        remove(folder, name)

    monkeypatch.setattr(Folder, "remove_folder", refused)
    result = run(command, capture)
    assert result.exit_code == (1 if command == "compact" else 0)
    assert "compacted 1 session" in result.output or "Sessions" in result.output
    told = " ".join(result.output.split())
    assert "finished session can't be removed: " in told
    assert ".gone.done: Permission denied" in told


@pytest.mark.parametrize("name", ["_spool", SESSION, "capture"])
def test_a_compaction_that_can_not_finish_does_not_begin(capture, name, monkeypatch) -> None:
    record(capture)
    before = everything(capture)
    monkeypatch.setattr(Folder, "is_writable", property(lambda folder: folder.path.name != name))
    result = run("inspect", capture)
    assert f"{name} can't be written by this user" in result.output
    assert everything(capture) == before


def test_another_users_session_is_left_to_them_unless_it_is_requested(capture, monkeypatch) -> None:
    record(capture)
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    before = everything(capture)
    result = run("inspect", capture)
    assert f"session {SESSION} is another user's" in result.output
    assert everything(capture) == before
    assert run("compact", capture).output.startswith("compacted 1 session")


# one bad session


def newer(log: bytes) -> bytes:
    """Writes a segment of a later format."""
    told = b"KWSPOOL\n" + (99).to_bytes(2, "big") + (2).to_bytes(4, "big") + b"{}"
    return told + crc32c(told).to_bytes(4, "big")


BAD_SESSIONS: dict[str, Callable[[Path], object]] = {
    "a flipped bit that looks like format 65": lambda session: _flip(session / "00000001.log", 9, 0x40),
    "a newer format": lambda session: (session / "00000001.log").write_bytes(newer(b"")),
    "a link": lambda session: (session / "00000002.log").symlink_to("elsewhere"),
    "a folder for a segment": lambda session: (session / "00000002.log").mkdir(),
    "a segment of another session": lambda session: (session / "00000001.log").write_bytes(
        (session.parent / LATER / "00000001.log").read_bytes()
    ),
}


def _flip(path: Path, at: int, bits: int) -> None:
    log = bytearray(path.read_bytes())
    log[at] ^= bits
    path.write_bytes(log)


@pytest.mark.parametrize("bad", BAD_SESSIONS)
def test_a_bad_session_is_named_and_the_others_are_compacted(capture, bad) -> None:
    later, first = record(capture, LATER), record(capture)
    BAD_SESSIONS[bad](first)
    result = run("compact", capture)
    assert_no_traceback(result)
    assert result.exit_code == 1
    assert f"session {SESSION} is " in result.stderr
    assert not later.exists()
    shown = run("inspect", capture, "--json")
    assert {session["session"] for session in json.loads(shown.stdout)["sessions"]} >= {LATER}


def test_all_bad_sessions_are_named(capture) -> None:
    for session in (SESSION, LATER):
        (record(capture, session) / "00000002.log").symlink_to("elsewhere")
    result = run("compact", capture)
    assert result.exit_code == 1
    for session in (SESSION, LATER):
        assert f"Error: session {session} is left as it is" in result.stderr


# Parquet files of other programs


@pytest.mark.parametrize("folder", ["date=zzz/hour=00", "date=2026-02-31/hour=00", "date=2026-01-01/hour=99"])
@pytest.mark.parametrize("command", [("inspect",), ("inspect", "frames"), ("inspect", "exchanges")], ids="-".join)
def test_a_bad_date_is_refused_with_a_reason(capture, folder, command) -> None:
    record(capture)
    assert run("compact", capture).exit_code == 0
    (file,) = (capture / "frames").rglob("*.parquet")
    odd = capture / "frames" / folder
    odd.mkdir(parents=True)
    file.rename(odd / file.name)
    result = run(*command, capture)
    assert_no_traceback(result)
    assert result.exit_code == 1
    assert "is no part of a capture" in result.stderr


VALUES: dict[str, tuple[str, str, object]] = {
    "a time behind all time": ("frames", "at", 1 << 62),
    "a time before all time": ("events", "at", -(1 << 62)),
    "no span": ("frames", "masked", [None]),
    "a span from nowhere": ("frames", "masked", [{"start": None, "length": 1}]),
    "a span of no length": ("frames", "omitted", [{"start": 0, "length": None}]),
}


@pytest.mark.parametrize("command", ["frames", "exchanges", "show"])
@pytest.mark.parametrize("value", VALUES)
def test_values_that_no_capture_has_are_reported_in_a_sentence(capture, value, command) -> None:
    record(capture)
    assert run("compact", capture).exit_code == 0
    kind, name, odd = VALUES[value]
    for path in (capture / kind).rglob("*.parquet"):
        table = pq.read_table(path, partitioning=None)
        field = table.schema.field(name)
        plain = pa.int64() if name == "at" else field.type
        column = pa.array([odd] * len(table), plain).cast(field.type)
        pq.write_table(table.set_column(table.schema.get_field_index(name), field, column), path)
    result = run("inspect", command, capture, *(["0"] if command == "show" else []))
    assert_no_traceback(result)
    if kind == "frames" or command == "show":
        assert f"its column {name} h" in " ".join(result.output.split())


# entries that no tap wrote, with valid checksums

OPENED, BYTES, OMITTED, HOLE, MADE, LOGIN, END_OF_STREAM, RESYNC, CLOSED, CLOCK, NODE, END, UNFRAMED = range(1, 14)
INTRODUCTION = json.dumps(logged.opened()).encode()
NOTHING_OPEN = b'{"open": [], "closed": {"connections": 0, "frames": 0, "bytes": 0}, "clusters": []}'


class Crafted(NamedTuple):
    kind: int
    data: bytes = b""
    direction: int = 0
    connection: int = 1
    offset: int = 0
    mono_ns: int = 10
    spans: tuple[tuple[int, int], ...] = ()


entry = Crafted


def crafted(folder: Path, *entries: Crafted) -> Path:
    """Writes a log of one segment. Entries have the numbers that a tap would give them."""
    session = folder / "_spool" / SESSION
    session.mkdir(parents=True)
    log, seed = spool.encode_head(spool.SegmentHead(SESSION, 1, 1_700_000_000 * 10**9, 5, 0, None, 60, 0))
    counts: Counter[int] = Counter()
    for kind, data, direction, connection, offset, mono_ns, spans in entries:
        item = kind, direction, connection, offset, mono_ns, data, spans
        log += spool.encoded_entry(item, counts[connection], seed)
        counts[connection] += connection >= 0
    (session / "00000001.log").write_bytes(log)
    return session


def introduced(**facts: object) -> Crafted:
    return entry(OPENED, json.dumps(logged.opened(**facts)).encode(), connection=2)


NO_NODE = {"node_id": "x", "upstream": 3, "listener": {}, "cluster": "main"}
FACTS = {name: kind for name, kind in globals().items() if name in ("OMITTED", "HOLE", "LOGIN", "RESYNC", "CLOSED")}
NONSENSE = {"list": b"[]", "number": b"5", "nothing": b"", "empty": b"{}", "null": b"null", "bytes": b"\xff\xfe"}
NONSENSE |= {"deep": b"[" * 100_000, "text": b'"' + b"x" * 100 + b'"'}
ODD: dict[str, tuple[Crafted, ...]] = {
    "direction 7": (entry(BYTES, b"abc", direction=7),),
    "a kind that is none": (entry(99, b"abc"), entry(0, b"abc")),
    "spans beyond the bytes": (entry(BYTES, b"\0\0\0\x20" * 9, spans=((1 << 31, 1 << 31), (0, 99))),),
    "a time before all time": (entry(BYTES, b"abc", mono_ns=-(1 << 63)),),
    "a time behind all time": (entry(BYTES, b"abc", mono_ns=(1 << 63) - 1),),
    "a clock that nobody has": (entry(CLOCK, offset=(1 << 63) - 1, connection=-1),),
    "a clock of long ago": (entry(CLOCK, offset=-(1 << 63), connection=-1),),
    "an answer without a head": (entry(MADE, b"", 1), entry(MADE, b"\0\0\0", 1)),
    "a connection below all": (entry(BYTES, b"abc", connection=-7), entry(CLOSED, b"{}", connection=-(1 << 63))),
    "opened twice": (entry(OPENED, INTRODUCTION), entry(OPENED, INTRODUCTION)),
    "a bytes entry of no connection": (entry(BYTES, b"abc", connection=-1),),
    "an offset far ahead": (entry(BYTES, b"abc", offset=1 << 62),),
    "a node that is no number": (
        entry(NODE, b'{"node_id": "x", "upstream": 3, "listener": {}, "cluster": "main"}', connection=-1),
    ),
    "names of other types": (
        entry(OPENED, json.dumps(logged.opened(client=5, node="x", dialect="y")).encode(), connection=2),
    ),
    "a surrogate alone": (introduced(client="\ud800"),),
    "garbage to go on from": (
        entry(HOLE, b'{"reason": "queue_full", "offsets": [0, 0]}'),
        entry(RESYNC, json.dumps({"state": {"in_flight": 5}, "account": logged.account(), "unwanted": []}).encode()),
    ),
    **{
        f"{kind} is {what}": (entry(number, text),) for kind, number in FACTS.items() for what, text in NONSENSE.items()
    },
    **{f"opened is {what}": (entry(OPENED, text, connection=2),) for what, text in NONSENSE.items()},
}


@pytest.mark.parametrize("what", ODD)
def test_entries_that_no_tap_wrote_give_no_traceback(capture, what) -> None:
    rng = random.Random(1)
    other = traffic.call(rng, METADATA, 7, "c")
    crafted(
        capture,
        entry(OPENED, INTRODUCTION),
        entry(OPENED, INTRODUCTION, connection=9),
        *ODD[what],
        entry(BYTES, other.request, connection=9, mono_ns=11),
        entry(BYTES, other.answer or b"", direction=1, connection=9, mono_ns=12),
        entry(CLOSED, json.dumps(logged.closing()).encode(), connection=9, mono_ns=13),
        entry(END, NOTHING_OPEN, connection=-1, mono_ns=14),
    )
    result = run("inspect", capture, "--json")
    assert_no_traceback(result)
    assert "left as it is" not in result.output


@pytest.mark.parametrize(
    "length", [[3 << 30], [64 << 20] * 16, [1] * 1000], ids=["3 GiB", "16 times 64 MiB", "bytes one by one"]
)
def test_omitted_bytes_take_no_memory(capture, length) -> None:
    """Takes a response of 1 GiB of which only the head was kept, or rows that claim so."""
    asked = traffic.call(random.Random(1), METADATA, 7, "c").request
    size = min(sum(length), (1 << 30) - 4)
    answer = (size + 4).to_bytes(4, "big") + (7).to_bytes(4, "big")
    left_out, at = [], 8
    for some in length:
        some = min(some, size + 8 - at) if len(length) > 1 else some
        left_out.append(entry(OMITTED, json.dumps({"length": some}).encode(), 1, offset=at))
        at += some
    session = crafted(capture, entry(OPENED, INTRODUCTION), entry(BYTES, asked), entry(BYTES, answer, 1), *left_out)
    tracemalloc.start()
    try:
        result = run("compact", capture)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert_no_traceback(result)
    assert not session.exists()
    assert peak < 100 << 20
