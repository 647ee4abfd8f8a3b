"""Tests of few bytes that unfold to many, in each view that opens them: a command shows what its budget allows.

Each bomb far exceeds the budget in one way: unfolded, as values, or as text.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from proxy.cli import main
from proxy.tools.output import INCOMPLETE
from proxy.units import MIB
from proxy.wire import catalog, embedded, kafka07, records
from proxy.wire.kafka07 import messages
from proxy.wire.keys import DELETE_GROUPS, ENVELOPE, METADATA, PRODUCE, PUSH_TELEMETRY
from proxy.wire.primitives import uvarint
from proxy.wire.records import Compression, Record, write_batch, write_message_set
from recorder.capture.frames import frames_schema

pytestmark = pytest.mark.real

BUDGET = 8 * MIB
SESSION = "20261121T120000Z-abc"
# The budget does not count brackets, indents and the note.
MAX_PRINTED = 4 * BUDGET


@dataclass(frozen=True)
class Bomb:
    """The input of `wire decode`, the smallest factor by which it exceeds the budget, and the options."""

    data: Callable[[], bytes]
    options: tuple[str, ...] = ()
    made: str = "unfolding"


def produce(data: bytes, partitions: int = 1, version: int = 9) -> bytes:
    each = [{"index": index, "records": data} for index in range(partitions)]
    values = {"acks": 1, "timeout_ms": 1000, "topic_data": [{"name": "t", "partition_data": each}]}
    return catalog.encode_request(PRODUCE, version, 7, "me", values)


@cache
def batch(codec: Compression, size: int = 7 * MIB) -> bytes:
    return write_batch([Record(0, value=b"a" * size)], codec=codec)


def of_small_records() -> bytes:
    return produce(write_batch([Record(n) for n in range(20_000)], codec=Compression.ZSTD))


def of_headers() -> bytes:
    return produce(write_batch([Record(0, headers=(("", None),) * 100_000)], codec=Compression.ZSTD))


def message_set(magic: int) -> bytes:
    found = [Record(n, 0, timestamp_type=records.TimestampType.NONE) for n in range(30_000)]
    return produce(write_message_set(found, magic=magic, codec=Compression.GZIP), version=2)


def telemetry(codec: Compression) -> bytes:
    number = [*Compression].index(codec)
    pushed = {"compression_type": number, "metrics": records.compress(codec, b"\n\0" * (MIB // 2))}
    return catalog.encode_request(PUSH_TELEMETRY, 0, 7, "me", {"client_instance_id": bytes(16)} | pushed)


def metadata(topics: int, tags: int = 0) -> bytes:
    """A request for topics of two bytes each, with as many unknown tags."""
    head = catalog.encode_request(METADATA, 9, 7, "me", {"topics": []})[:-5]
    unknown = uvarint(tags) + b"".join(uvarint(10_000 + tag) + b"\0" for tag in range(tags))
    return head + uvarint(topics + 1) + b"\1\0" * topics + b"\0\0\0" + unknown


def three_batches(codec: Compression) -> bytes:
    return produce(batch(codec) * 3)


def envelope() -> bytes:
    inner = produce(batch(Compression.ZSTD) * 3)
    return catalog.encode_request(ENVELOPE, 0, 7, "me", {"request_data": inner, "request_principal": b""})


def produce_07(codec: Compression, payloads: list[bytes], times: int) -> bytes:
    wrapper = messages.compressed(messages.message_set(payloads), codec)
    return kafka07.encode_request(kafka07.Produce("t", 0, wrapper * times))


OLD = ("--dialect", "kafka-0.7")
ALL_RECORDS = ("--records", "1000000")
BOMBS = {
    **{
        f"batches of {codec.value}": Bomb(partial(three_batches, codec))
        for codec in (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD)
    },
    "a batch larger than all": Bomb(lambda: produce(batch(Compression.ZSTD, 3 * BUDGET))),
    "partitions": Bomb(lambda: produce(batch(Compression.ZSTD), partitions=60)),
    "a segment": Bomb(lambda: batch(Compression.ZSTD) * 9, ("--batches",)),
    "small records": Bomb(of_small_records, ALL_RECORDS, "decoding"),
    "headers": Bomb(of_headers, (), "decoding"),
    "messages of magic 0": Bomb(lambda: message_set(0), (), "decoding"),
    "messages of magic 1": Bomb(lambda: message_set(1), (), "decoding"),
    "empty batches": Bomb(lambda: write_batch([]) * 10_000, ("--batches",), "decoding"),
    "telemetry": Bomb(lambda: telemetry(Compression.GZIP), (), "decoding"),
    "plain telemetry": Bomb(lambda: telemetry(Compression.NONE), (), "decoding"),
    "empty structs": Bomb(lambda: metadata(100_000), (), "decoding"),
    "unknown tags": Bomb(lambda: metadata(1, tags=100_000), (), "decoding"),
    "an envelope": Bomb(envelope, ("--show-secrets",)),
    "a message inside messages": Bomb(
        lambda: embedded.encode_blob("ConsumerProtocolSubscription", 0, {"topics": [""] * 200_000}),
        ("--as", "ConsumerProtocolSubscription"),
        "decoding",
    ),
    "text": Bomb(lambda: produce(write_batch([Record(0, value=b"a" * 5 * MIB)])), (), "printing"),
    "escapes": Bomb(lambda: produce(write_batch([Record(0, value=b"\n" * 3 * MIB)])), (), "printing"),
    "wrappers of 0.7": Bomb(lambda: produce_07(Compression.GZIP, [b"a" * 5 * MIB], 3), OLD),
    "messages of 0.7": Bomb(lambda: produce_07(Compression.GZIP, [b""] * 20_000, 1), (*OLD, *ALL_RECORDS), "decoding"),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Writes each bomb into a file of its own."""
    folder = tmp_path_factory.mktemp("bombs")
    found = {name: folder / str(number) for number, name in enumerate(BOMBS)}
    for name, file in found.items():
        file.write_bytes(BOMBS[name].data())
    return found


def arguments(name: str, file: Path) -> list[str]:
    return ["wire", "decode", "--file", str(file), *BOMBS[name].options, "--budget", str(BUDGET)]


def run(*given: str) -> Result:
    return CliRunner().invoke(main, given)


def parsed(text: str) -> list[Any]:
    """Parses consecutive JSON objects."""
    found, at, decoder = [], 0, json.JSONDecoder()
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        found.append(value)
        at += 1
    return found


@pytest.mark.parametrize("name", BOMBS)
def test_wire_decode_shows_what_its_budget_allows_and_says_what_ended_it(files: dict[str, Path], name: str) -> None:
    done = run(*arguments(name, files[name]))
    assert done.exit_code == INCOMPLETE, done.output[-500:]
    assert f"{BOMBS[name].made}" in done.stderr
    assert done.stderr.startswith("note: not all is shown: ")
    assert done.stderr.endswith(" would make more than 8MiB; --budget raises that\n")
    assert parsed(done.stdout)
    assert len(done.stdout) < MAX_PRINTED


def test_all_of_them_in_one_process_take_little_memory(files: dict[str, Path]) -> None:
    program = """
import contextlib, json, os, re, sys
from pathlib import Path
from proxy.cli import main
with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing), contextlib.redirect_stderr(nothing):
    for arguments in json.load(sys.stdin):
        with contextlib.suppress(SystemExit):
            main(arguments)
print(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""
    every = json.dumps([arguments(name, file) for name, file in files.items()])
    done = subprocess.run([sys.executable, "-c", program], input=every, capture_output=True, check=True, text=True)
    # Python with all codecs takes 60 MiB; without the budget, a bomb takes more than 1 GiB
    assert int(done.stdout) * 1024 < 220 * MIB


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture in which each frame is a bomb."""
    folder = tmp_path_factory.mktemp("capture")
    frames = [produce(batch(Compression.ZSTD) * 3), telemetry(Compression.GZIP), metadata(100_000)]
    keys = [(PRODUCE, 9), (PUSH_TELEMETRY, 0), (METADATA, 9)]
    head: dict[str, Any] = {
        "session": SESSION,
        "connection": 1,
        "dialect": "kafka",
        "kind": "request",
        "made_by": "client",
        "at_ns": 1,
    }
    rows = [
        head | {"sequence": at, "api_key": key, "api_version": version, "frame": frame}
        for at, (frame, (key, version)) in enumerate(zip(frames, keys, strict=True))
    ]
    groups = b"".join([b"\0\0\0\7", b"\0", bytes(4), uvarint(200_001), b"\1\0\x45\0" * 200_000, b"\0"])
    answer = {"kind": "response", "api_key": DELETE_GROUPS, "api_version": 2, "frame": groups, "exchange": 3}
    rows.append(head | answer | {"sequence": 3})
    rows = [row | {"size": len(row["frame"]), "stored": len(row["frame"])} for row in rows]
    place = folder / "frames" / "date=2026-11-21" / "hour=12"
    place.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, frames_schema()), place / f"{SESSION}-1-1.parquet")
    return folder


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize("frame", ["1/0", "1/1", "1/2"])
def test_inspect_show_keeps_within_its_budget(capture: Path, frame: str, form: list[str]) -> None:
    done = run("inspect", "show", str(capture), frame, *form, "--budget", str(BUDGET))
    assert done.exit_code == INCOMPLETE
    assert done.stderr.endswith(" would make more than 8MiB; --budget raises that\n")
    assert f"{SESSION}/{frame}" in done.stdout


def test_the_budget_is_one_of_all_frames_that_are_shown(capture: Path) -> None:
    one = batch(Compression.ZSTD)
    needed = [str(3 * 7 * MIB + MIB), str(3 * 7 * MIB + len(one) * 3 + MIB)]
    assert run("inspect", "show", str(capture), "1/0", "--budget", needed[1]).exit_code == 0
    assert run("inspect", "show", str(capture), "1/0", "1/0", "--budget", needed[1]).exit_code == INCOMPLETE


def test_a_dump_ends_where_the_budget_does(capture: Path) -> None:
    done = run("inspect", "show", str(capture), "1/2", "--hex", "--bytes", "200000", "--budget", "10KiB")
    assert (done.exit_code, len(done.stdout) < 11_000) == (INCOMPLETE, True)
    assert "printing would make more than 10KiB" in done.stderr


def test_error_codes_beyond_the_budget_are_noted(capture: Path) -> None:
    done = run("inspect", "exchanges", str(capture), "--errors", "--budget", str(BUDGET))
    assert (done.exit_code, done.stdout.count("\n")) == (0, 1), "only the header"
    assert (
        done.stderr.splitlines()[-1] == "note: of 1 response nobody can tell whether it holds errors (over_budget: 1)"
    )
    for command in ("exchanges", "frames"):
        done = run("inspect", command, str(capture), "--budget", str(BUDGET))
        assert done.exit_code == 0
        assert done.stdout.count("errors not read: more than --budget\n") == 1
    done = run("inspect", "show", str(capture), "1/3", "--budget", str(BUDGET))
    assert "\n  errors: not read: more than --budget\n" in done.stdout


def test_a_connection_with_an_expanding_answer_is_shown(capture: Path) -> None:
    done = run("inspect", "show", str(capture), "1", "--budget", "1GiB")
    assert (done.exit_code, "  api 42: 1 exchange, 1 request lost, GROUP_ID_NOT_FOUND x200000\n" in done.stdout) == (
        0,
        True,
    )


def test_a_capture_too_costly_to_read_is_reported_in_one_line(capture: Path) -> None:
    for command in ("summary", "frames", "exchanges"):
        done = run("inspect", command, str(capture), "--budget", "100")
        assert done.exit_code == INCOMPLETE
        (line,) = done.stderr.splitlines()[-1:]
        assert line.endswith(f"{SESSION}-1-1.parquet: reading makes more than 100 bytes; --budget raises that")


def test_a_value_within_the_budget_is_shown_whole(files: dict[str, Path]) -> None:
    done = run("wire", "decode", "--file", str(files["text"]), "--budget", "1GiB")
    (frame,) = parsed(done.stdout)
    (told,) = frame["body"]["topic_data"][0]["partition_data"][0]["records"]
    assert (done.exit_code, told["records"][0]["value"]["text"]) == (0, "a" * 5 * MIB)


@pytest.mark.parametrize(("size", "fault"), [("0", "lets nothing through"), ("much", "is no size")])
def test_a_bad_budget_is_reported_in_one_line(files: dict[str, Path], size: str, fault: str) -> None:
    done = run("wire", "decode", "--file", str(files["text"]), "--budget", size)
    assert done.exit_code == 2
    assert done.stderr.endswith(f"{size!r} {fault}; right would be --budget 1GiB\n")
