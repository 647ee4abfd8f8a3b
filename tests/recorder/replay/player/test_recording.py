"""Tests of the capture that a replay makes of its own traffic."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path
from typing import Any

import pytest
import trio

from proxy.schema.addresses import Address
from proxy.wire import encode_request
from proxy.wire.catalog import encode_response
from proxy.wire.framing import framed
from proxy.wire.keys import METADATA, SASL_AUTHENTICATE, SASL_HANDSHAKE
from recorder.capture.frames import Origin
from recorder.capture.origins import origin_of
from recorder.capture.reader import files, row_groups
from recorder.capture.session import FolderError, WhenFull
from recorder.replay.player import recording as module
from recorder.replay.player.recording import Recording, recording
from recorder.replay.recorded_clusters import recorded_clusters

RECORDED = Origin("then", 7, 3)
NOBODY: dict[str, Any] = {"brokers": [], "topics": []}
Row = dict[str, Any]


@pytest.fixture(autouse=True)
def compactor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compactor that ends at once; all that it leaves is compacted at the end."""
    monkeypatch.setattr(module, "compactor_command", lambda folder, session: ["true"])


def request(key: int, version: int, values: Row, correlation_id: int = 1) -> bytes:
    return framed(encode_request(key, version, correlation_id=correlation_id, client_id="app", values=values))


def response(key: int, version: int, values: Row, correlation_id: int = 1) -> bytes:
    return framed(encode_response(key, version, correlation_id, values))


def rows(folder: Path, kind: str = "frames", *names: str) -> list[Row]:
    return [row for file in files(folder, kind) for table in row_groups(file, names) for row in table.to_pylist()]


def kept(folder: Path, when_full: WhenFull = WhenFull.DROP) -> Recording:
    return Recording(folder, when_full)


def test_requests_and_answers_are_frames_and_a_replayed_one_has_its_origin(tmp_path: Path) -> None:
    session = kept(tmp_path)
    tape = session.opened(4, "broker:9092", "127.0.0.1:5000", "127.0.0.1:9092", tls=False)
    for number, origin in ((1, None), (2, RECORDED)):
        tape.sends(request(METADATA, 1, {"topics": []}, number), origin)
        tape.came(response(METADATA, 1, NOBODY, number))
    tape.close()
    lines = session.close()
    assert len(lines) == 1, "nothing is missing"
    found = rows(tmp_path, "frames", "kind", "exchange", "node", "client", "session")
    assert [(row["kind"], row["exchange"]) for row in found] == [
        ("request", 0),
        ("response", 0),
        ("request", 1),
        ("response", 1),
    ]
    assert {(row["node"], row["client"]) for row in found} == {(4, "127.0.0.1:5000")}
    name = found[0]["session"]
    assert [origin_of(tmp_path, name, 0, number, most=1 << 20) for number in (0, 1)] == [None, RECORDED]


def test_a_password_is_in_no_file_of_it(tmp_path: Path) -> None:
    session = kept(tmp_path)
    tape = session.opened(None, "broker:9092", "127.0.0.1:5000", "127.0.0.1:9092", tls=False)
    tape.sends(request(SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"}))
    tape.came(response(SASL_HANDSHAKE, 1, {"error_code": 0, "mechanisms": ["PLAIN"]}))
    tape.sends(request(SASL_AUTHENTICATE, 1, {"auth_bytes": b"\0alice\0wonderland"}))
    tape.came(response(SASL_AUTHENTICATE, 1, {"error_code": 0, "auth_bytes": b""}))
    tape.sends(request(METADATA, 1, {"topics": []}))
    tape.close()
    logged = b"".join(path.read_bytes() for path in tmp_path.rglob("*.log"))
    session.close()
    found = rows(tmp_path, "frames", "frame", "principal")
    assert b"wonderland" not in logged + b"".join(row["frame"] for row in found)
    assert found[-1]["principal"] == "alice"


def test_only_the_user_of_the_replay_reads_its_log(tmp_path: Path) -> None:
    session = kept(tmp_path)
    (folder,) = (tmp_path / "_spool").iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    session.close()


@pytest.mark.parametrize(
    ("ends", "cause"),
    [("nothing", "client_closed"), ("end", "broker_closed"), ("reset", "broker_reset")],
)
def test_the_event_names_the_side_that_ended_the_connection(tmp_path: Path, ends: str, cause: str) -> None:
    session = kept(tmp_path)
    tape = session.opened(1, "broker:9092", "127.0.0.1:5000", "127.0.0.1:9092", tls=False)
    {"nothing": lambda: None, "end": lambda: tape.came(b""), "reset": tape.broke}[ends]()
    tape.close()
    tape.close()
    session.close()
    found = rows(tmp_path, "events", "kind", "cause")
    assert [row["cause"] for row in found if row["kind"] == "closed"] == [cause]


def test_a_capture_of_a_replay_tells_what_its_target_can_be_known_by(tmp_path: Path) -> None:
    session = kept(tmp_path)
    for number in (1, 2):
        session.opened(number, "broker:9092", "127.0.0.1:5000", "127.0.0.1:9092", tls=False).close()
        session.identified("target")
    session.close()
    found = recorded_clusters(tmp_path)
    assert len(found.sessions_of("target")) == 1
    assert not found.without_id
    assert {Address("broker", 9092), Address("127.0.0.1", 9092)} <= found.addresses.keys()


def test_nodes_are_reported_once_with_the_dialled_addresses(tmp_path: Path) -> None:
    session = kept(tmp_path)
    for address in ("a:1", "a:1", "b:1"):
        session.opened(1, address, "127.0.0.1:5000", "127.0.0.1:9092", tls=False).close()
    session.close()
    found = rows(tmp_path, "events", "kind", "detail")
    assert ['"upstream": "a:1"' in row["detail"] for row in found if row["kind"] == "node"] == [True, False]


def test_bytes_after_a_response_without_a_request_are_reported_as_missing(tmp_path: Path) -> None:
    session = kept(tmp_path)
    tape = session.opened(1, "broker:9092", "127.0.0.1:5000", "127.0.0.1:9092", tls=False)
    tape.came(response(METADATA, 1, NOBODY))
    tape.sends(request(METADATA, 1, {"topics": []}))
    tape.close()
    lines = session.close()
    assert any("are not in it: unexpected_response before them" in line for line in lines)


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FolderError):
        kept(tmp_path / "file")


def test_a_folder_that_goes_away_meanwhile_costs_the_recording_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    session = kept(folder)
    tape = session.opened(1, "broker:9092", "127.0.0.1:5000", "127.0.0.1:9092", tls=False)
    shutil.rmtree(folder)
    tape.sends(request(METADATA, 1, {"topics": []}), RECORDED)
    tape.close()
    lines = session.close()
    assert any("have no origin in it" in line for line in lines)
    assert "its end is not in it: the disk failed" in lines


def test_a_capture_that_can_not_be_compacted_is_reported_as_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise PermissionError(13, "no", "here")

    monkeypatch.setattr(module, "compact", fails)
    (line,) = kept(tmp_path).close()[1:]
    assert "it is not compacted" in line


async def test_a_replay_is_recorded_to_its_end_whatever_ends_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def play() -> None:
        async with recording(tmp_path, WhenFull.DROP) as session:
            assert session is not None
            session.opened(1, "broker:9092", "127.0.0.1:5000", "127.0.0.1:9092", tls=False).sends(
                request(METADATA, 1, {"topics": []})
            )
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await play()
    assert f"note: recorded in {tmp_path}, session " in capsys.readouterr().err
    assert not [*(tmp_path / "_spool").iterdir()], "it is compacted"
    assert len(rows(tmp_path, "frames", "kind")) == 1


async def test_a_replay_without_a_folder_records_nothing() -> None:
    async with recording(None, WhenFull.DROP) as session:
        assert session is None


async def test_a_replay_waits_for_the_disk_only_as_long_as_the_log_is_full(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    class Full:
        looks = 3

        @property
        def must_wait(self) -> bool:
            self.looks -= 1
            return self.looks > 0

    tap: Any = Full()
    await module._room(tap)
    assert tap.looks == 0
