"""Tests of Ctrl-C at any moment: the program ends in order, with exit code 1 and a report of the interrupt."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from proxy.wire.keys import LIST_OFFSETS
from tests.recorder.replay.captures import request, response, write
from tests.recorder.replay.player.broker import LoopbackBroker, serving
from tests.recorder.replay.simple import LIST_VERSION, list_answer, listed

COUNT, APART_NS = 200, 20 * 10**6
# queries before the play, for the ends of the log
ASKED_BEFORE = 2
TOO_LONG = 60


def capture(folder: Path) -> Path:
    """A capture of some seconds of one client that reads."""
    frames = []
    for number in range(COUNT):
        at = number * APART_NS
        frames.append(request(at, 1, number, LIST_OFFSETS, LIST_VERSION, listed()))
        frames.append(response(at + 10**6, 1, number, LIST_OFFSETS, LIST_VERSION, list_answer()))
    return write(folder, frames, group=50)


@contextmanager
def program(capture: Path, port: int, report: Path) -> Iterator[subprocess.Popen[bytes]]:
    arguments = [
        "replay",
        str(capture),
        "--to",
        f"127.0.0.1:{port}",
        "--yes",
        "--target-is-another",
        "--report",
        str(report),
    ]
    process = subprocess.Popen(
        [sys.executable, "-c", "from proxy.cli import main; main()", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.real
@pytest.mark.parametrize("behind", [0, 20])
async def test_ctrl_c_ends_a_replay_in_order_and_is_reported(behind: int, tmp_path: Path) -> None:
    folder, report, broker = capture(tmp_path / "capture"), tmp_path / "report.json", LoopbackBroker()
    async with serving(broker) as target:
        with program(folder, target.bootstrap[0][1], report) as process, trio.fail_after(TOO_LONG):
            while len(broker.asked) < ASKED_BEFORE + 1 + behind and process.poll() is None:
                await trio.sleep(0.01)
            process.send_signal(signal.SIGINT)
            output, _ = await trio.to_thread.run_sync(process.communicate)
    text = output.decode()
    assert process.returncode == 1, text
    assert "interrupted" in text
    assert "Traceback" not in text
    assert "interrupted" in json.dumps(json.loads(report.read_text()))
    assert len(broker.asked) < ASKED_BEFORE + COUNT
