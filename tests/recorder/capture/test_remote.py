"""Tests of a capture behind `s3://`: it reads like the folder, and an unreachable store gives one line."""

from __future__ import annotations

import http.server
import io
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.capture import remote
from recorder.capture.compactor import compact
from recorder.capture.frames import DamagedFileError
from recorder.capture.reader import files, groups_between, last_ns, row_groups
from recorder.capture.remote import S3Path, place_at, reason_of, size_of
from tests.recorder.capture import looks
from tests.recorder.capture.test_compaction import record
from tests.recorder.running import run
from tests.s3 import Store, store
from tests.servers import Quiet, serving


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    record(tmp_path, random.Random(3), 3, 12, 2500)
    compact(tmp_path)
    return tmp_path


@pytest.mark.real
@pytest.mark.parametrize("kind", ["frames", "events"])
def test_a_bucket_reads_as_the_folder_that_it_was_copied_from(s3: Store, capture: Path, kind: str) -> None:
    folder = place_at(s3.put(capture, f"bucket-{kind}"))
    here, there = files(capture, kind), files(folder, kind)
    assert [one._replace(path=Path()) for one in there] == [one._replace(path=Path()) for one in here]
    assert [size_of(one.path) for one in there] == [size_of(one.path) for one in here]
    columns = ("session", "at", "kind", "frame" if kind == "frames" else "detail")
    for local, stored in zip(here, there, strict=True):
        assert str(stored.path).endswith(str(looks.local_path(local).relative_to(capture)))
        assert groups_between(stored, 0, 1 << 40) == groups_between(local, 0, 1 << 40)
        tables = zip(row_groups(local, columns), row_groups(stored, columns), strict=True)
        assert all(one.equals(other) for one, other in tables)
    assert last_ns(folder) == last_ns(capture)


def test_a_missing_bucket_holds_no_files(s3: Store) -> None:
    assert files(place_at("s3://nowhere/kept")) == []
    found = run("analyze", "s3://nowhere/kept")
    assert found.exit_code == 2
    assert found.output == (
        "Error: s3://nowhere/kept holds no frames: right would be s3://BUCKET/FOLDER with a frames folder\n"
    )


def test_a_file_that_is_gone_is_named(s3: Store, capture: Path) -> None:
    (file, *_) = files(place_at(s3.put(capture, "bucket-gone")))
    gone = file._replace(path=place_at(f"{file.path}.gone"))
    with pytest.raises(DamagedFileError, match=f"{gone.path} can't be read: "):
        list(row_groups(gone))


class _Refusing(Quiet, http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def refusing(s3: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with serving(http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Refusing)) as port:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        yield


@pytest.mark.parametrize("command", [["analyze"], ["report"], ["sql"]], ids=lambda one: one[0])
def test_a_store_that_refuses_is_reported_in_one_line(refusing: None, command: list[str]) -> None:
    query = ["select 1"] if command == ["sql"] else []
    found = run(*command, "s3://bucket/kept", *query)
    assert found.exit_code == 2
    assert found.output == "Error: s3://bucket/kept can't be read: access denied: Access Denied\n"


@pytest.mark.real
def test_an_unreachable_store_is_reported_in_one_line(s3: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with store() as other:
        monkeypatch.setenv("AWS_ENDPOINT_URL", other.endpoint)
    found = run("analyze", "s3://bucket/kept")
    assert found.exit_code == 2
    assert found.output.startswith("Error: s3://bucket/kept can't be read: network connection: ")
    assert found.output.count("\n") == 1


def test_an_error_that_is_not_aws_keeps_its_text() -> None:
    assert reason_of(OSError("no\nroom")) == "no room"


class Sized(io.BytesIO):
    def size(self) -> int:
        return len(self.getvalue())


STEPS = st.lists(
    st.tuples(st.sampled_from([io.SEEK_SET, io.SEEK_CUR, io.SEEK_END]), st.integers(0, 60), st.integers(0, 60))
)


@given(st.binary(max_size=100), STEPS)
def test_blocks_read_as_the_whole_file_does(data: bytes, steps: list[tuple[int, int, int]]) -> None:
    whole = io.BytesIO(data)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(remote, "_BLOCK_BYTES", 16)
        blocks = io.BufferedReader(remote._Blocks(Sized(data)), 1)
        for whence, offset, count in steps:
            at = -min(offset, len(data)) if whence == io.SEEK_END else offset
            assert blocks.seek(at, whence) == whole.seek(at, whence)
            assert blocks.read(count) == whole.read(count)


def test_a_path_is_what_its_url_says() -> None:
    path = place_at("s3://bucket/kept/frames/date=2026-11-21/hour=12/s-1-2.parquet")
    assert isinstance(path, S3Path)
    assert str(path) == "s3://bucket/kept/frames/date=2026-11-21/hour=12/s-1-2.parquet"
    assert (path.name, path.stem, path.parent.name, path.parents[2].name) == (
        "s-1-2.parquet",
        "s-1-2",
        "hour=12",
        "frames",
    )
