"""Tests of shipping's numbers beside a proxy, and of the command that it starts."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from proxy.files import Folder
from proxy.metrics.table import RECORDER_COUNTERS, RECORDER_COUNTERS_BY_CAUSE
from recorder.capture.lock import Lock
from recorder.capture.session import CaptureSettings
from recorder.capture.shipped import FRESH_NS, SHIP_FOLDER, SHIP_LOCK, ShipStatus, write_status
from recorder.shipping.beside_proxy import FAILURES, ShippingMetrics, shipper_command

SECOND = 10**9
NOW = 1_000_000 * SECOND


@pytest.fixture
def metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ShippingMetrics:
    monkeypatch.setattr(time, "time_ns", lambda: NOW)
    return ShippingMetrics(CaptureSettings(folder=tmp_path, ship="s3://bucket"))


def told(folder: Path, **status: object) -> None:
    with Folder.at(folder) as capture, capture.make_folder(SHIP_FOLDER) as ship:
        write_status(ship, ShipStatus(**status))  # type: ignore[arg-type]


def lock(folder: Path) -> Lock:
    with Folder.at(folder) as capture, capture.make_folder(SHIP_FOLDER) as ship:
        taken = Lock.take(ship, SHIP_LOCK)
        assert taken is not None
        return taken


def test_the_status_is_shown_by_the_names_of_the_metrics_table(tmp_path: Path, metrics: ShippingMetrics) -> None:
    held = lock(tmp_path)
    waits = {"waiting_files": 3, "waiting_bytes": 40, "oldest_ns": NOW - 9 * SECOND}
    told(tmp_path, files=1, bytes=2, failures={"timeout": 5}, failing="timeout", at_ns=NOW, **waits)
    numbers = dict(metrics.counters())
    held.release()
    assert FAILURES in RECORDER_COUNTERS_BY_CAUSE
    assert numbers.pop(FAILURES + "timeout") == 5
    assert numbers.keys() <= RECORDER_COUNTERS.keys()
    assert [*numbers.values()] == [1, 2, 3, 40, 9.0, 1.0, 1.0, 0]


def test_all_shipped_is_no_lag(tmp_path: Path, metrics: ShippingMetrics) -> None:
    held = lock(tmp_path)
    told(tmp_path, at_ns=NOW)
    assert metrics.counters()["ship_lag_seconds"] == 0
    held.release()


@pytest.mark.parametrize("runs", [False, True])
def test_the_lag_grows_while_nothing_ships_or_what_ships_says_nothing(
    tmp_path: Path, metrics: ShippingMetrics, runs: bool
) -> None:
    held = lock(tmp_path) if runs else None
    told(tmp_path, at_ns=NOW - FRESH_NS - 9 * SECOND)
    numbers = metrics.counters()
    assert numbers["ship_lag_seconds"] == FRESH_NS / SECOND + 9
    assert numbers["shipper_runs"] == runs
    if held is not None:
        held.release()


def test_restarts_are_counted(metrics: ShippingMetrics) -> None:
    metrics.ended()
    metrics.ended()
    assert metrics.counters()["shipper_restarts"] == 2


def test_the_command_line_has_paths_and_no_secret(tmp_path: Path) -> None:
    settings = CaptureSettings(folder=tmp_path, ship="s3://bucket/x", ship_region="here", ship_credentials=Path("k"))
    command = shipper_command(settings)
    assert command[3:] == [
        *("recorder.shipping.process", str(tmp_path), "s3://bucket/x"),
        *("--proxy", str(os.getpid()), "--region", "here", "--credentials", "k"),
    ]
