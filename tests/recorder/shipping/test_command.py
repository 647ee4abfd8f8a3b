"""Tests of `kafka-wiretap ship`: a finished capture goes to a bucket, or a line says why not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from proxy.cli import main
from proxy.files import Folder
from recorder.capture.lock import Lock
from recorder.capture.shipped import SHIP_FOLDER, SHIP_LOCK
from recorder.shipping.shipper import Shipper
from tests.brokers.waiting import wait_for
from tests.faulty_s3 import Fault, Front
from tests.recorder.shipping.shipped import URL, local, remote
from tests.s3 import Store

pytestmark = pytest.mark.real


def run(*words: object) -> Result:
    return CliRunner().invoke(main, ["ship", *map(str, words)])


def test_a_finished_capture_is_shipped_once(s3: Store, store_front: Front, folder: Path) -> None:
    done = run(folder, URL)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(f"shipped {len(local(folder))} files, ")
    assert remote(s3) == local(folder)
    assert run(folder, URL).stdout == "shipped 0 files, 0 B\n"


def test_in_a_pipe_it_says_how_far_it_is(store_front: Front, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    ship_all = Shipper.ship_all

    def ships(shipper: Shipper, tries: int) -> bool:
        done, before = ship_all(shipper, tries), len(said)
        wait_for(lambda: len(said) > before + 1, "a line")
        return done

    monkeypatch.setattr("recorder.terminal.EVERY_SECONDS", 0.02)
    monkeypatch.setattr("recorder.terminal.echo", lambda line, **_: said.append(line))
    monkeypatch.setattr(Shipper, "ship_all", ships)
    assert run(folder, URL).exit_code == 0
    assert re.fullmatch(rf"\d+ s: shipping to {URL} \.\.\. \({len(local(folder))} files, .*B\)", said[-1])


def test_a_store_that_refuses_is_one_line(store_front: Front, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recorder.shipping.shipper.FIRST_PAUSE", 0.0)
    store_front.fault = lambda method, key: Fault.FORBIDDEN
    done = run(folder, URL)
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: nothing is shipped (refused), and tried again: ")
    assert done.stderr.count("\n") == 1


def test_without_keys_it_says_where_keys_are_looked_for(
    store_front: Front, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recorder.shipping.shipper.FIRST_PAUSE", 0.0)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    done = run(folder, URL)
    assert done.exit_code == 1
    assert "there are no keys; right would be --credentials FILE" in done.stderr


def test_one_process_ships_a_capture(store_front: Front, folder: Path) -> None:
    with Folder.at(folder) as capture, capture.make_folder(SHIP_FOLDER) as ship:
        lock = Lock.take(ship, SHIP_LOCK)
        assert lock is not None
        done = run(folder, URL)
        lock.release()
    assert done.exit_code == 1
    assert done.stderr == "Error: another process ships this capture: it copies the rest\n"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["s3://bucket/x", URL], "s3://bucket/x is a URL; right would be a folder of this machine"),
        (["{folder}", "bucket"], "'bucket' names no bucket; right would be s3://bucket/folder"),
        (["{empty}", URL], "holds no capture"),
        (["{folder}", URL, "--endpoint", "store"], "is no URL of a store; right would be --endpoint https://store"),
    ],
)
def test_what_is_wrong_is_one_line(folder: Path, tmp_path: Path, words: list[str], line: str) -> None:
    (tmp_path / "empty").mkdir()
    done = run(*(word.format(folder=folder, empty=tmp_path / "empty") for word in words))
    assert done.exit_code == 2
    assert line in done.stderr


def test_keys_come_from_the_file_that_is_named_and_their_secret_is_nowhere(
    store_front: Front, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "Vj3kT9x-not-for-the-disk"
    keys = tmp_path / "keys"
    keys.write_text(f"[default]\naws_access_key_id = AKIAFILE\naws_secret_access_key = {secret}\n")
    seen: list[str] = []
    monkeypatch.setattr("tests.faulty_s3._Handler.send_response_only", _noting(seen))
    done = run(folder, URL, "--credentials", keys)
    assert done.exit_code == 0, done.output
    assert seen
    assert all("AKIAFILE" in authorization for authorization in seen)
    written = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert secret.encode() not in written + done.output.encode()


def _noting(seen: list[str]):
    import http.server

    plain = http.server.BaseHTTPRequestHandler.send_response_only

    def send(self, code, message=None):
        if self.headers is not None and "Authorization" in self.headers:
            seen.append(self.headers["Authorization"])
        plain(self, code, message)

    return send
