"""Tests of Ctrl-C and its like at any moment: the program ends in order, with exit code 1 and a report of that."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from proxy.wire.keys import LIST_OFFSETS
from tests.brokers.waiting import PATIENCE
from tests.recorder.replay.captures import request, response, write
from tests.recorder.replay.player.broker import LoopbackBroker, serving
from tests.recorder.replay.simple import LIST_VERSION, list_answer, listed

COUNT, APART_NS = 1000, 20 * 10**6
# queries before the play, for the ends of the log
ASKED_BEFORE = 2
# as the kernel and the shell do when a terminal closes
HANGUPS = (signal.SIGHUP, signal.SIGHUP)


def capture(folder: Path, count: int = COUNT) -> Path:
    """A capture of one client that reads, of far more seconds than a busy machine takes to send a signal."""
    frames = []
    for number in range(count):
        at = number * APART_NS
        frames.append(request(at, 1, number, LIST_OFFSETS, LIST_VERSION, listed()))
        frames.append(response(at + 10**6, 1, number, LIST_OFFSETS, LIST_VERSION, list_answer()))
    return write(folder, frames, group=50)


@contextmanager
def program(capture: Path, port: int, report: Path, **options: Any) -> Iterator[subprocess.Popen[Any]]:
    target = ["--to", f"127.0.0.1:{port}", "--yes", "--target-is-another"]
    arguments = ["replay", str(capture), *target, "--report", str(report)]
    process: subprocess.Popen[Any] = subprocess.Popen(
        [sys.executable, "-c", "from proxy.cli import main; main()", *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        **({"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} | options),
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


async def plays(broker: LoopbackBroker, process: subprocess.Popen[bytes], behind: int) -> None:
    """Returns once the broker has got this many requests of the play, or the process has ended."""
    while len(broker.asked) < ASKED_BEFORE + 1 + behind and process.poll() is None:
        await trio.sleep(0.01)


@pytest.mark.real
@pytest.mark.parametrize(
    ("numbers", "behind"),
    [([signal.SIGINT], 0), ([signal.SIGINT], 20), (HANGUPS, 20)],
    ids=["Ctrl-C at once", "Ctrl-C", "hangups"],
)
async def test_signals_end_a_replay_in_order_and_are_reported(
    numbers: Sequence[signal.Signals], behind: int, tmp_path: Path
) -> None:
    folder, report, broker = capture(tmp_path / "capture"), tmp_path / "report.json", LoopbackBroker()
    async with serving(broker) as target:
        with program(folder, target.bootstrap[0][1], report) as process, trio.fail_after(PATIENCE):
            await plays(broker, process, behind)
            for number in numbers:
                process.send_signal(number)
            output, _ = await trio.to_thread.run_sync(process.communicate)
    text = output.decode()
    assert process.returncode == 1, text
    assert "interrupted" in text
    assert "Traceback" not in text
    assert "interrupted" in json.dumps(json.loads(report.read_text()))
    assert len(broker.asked) < ASKED_BEFORE + COUNT


def owning(terminal: int) -> Callable[[], None]:
    """Makes a process the owner of a terminal, as a shell's terminal is the one of its programs."""

    def own() -> None:
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)

    return own


@pytest.mark.real
async def test_a_terminal_that_closes_ends_a_replay_in_order_and_its_report_is_written(tmp_path: Path) -> None:
    folder, report, broker = capture(tmp_path / "capture"), tmp_path / "report.json", LoopbackBroker()
    person, terminal = os.openpty()
    streams = {"stdin": terminal, "stdout": terminal, "stderr": terminal}
    async with serving(broker) as target:
        with program(
            folder,
            target.bootstrap[0][1],
            report,
            **streams,
            start_new_session=True,
            preexec_fn=owning(terminal),
        ) as process:
            os.close(terminal)
            with trio.fail_after(PATIENCE):
                await plays(broker, process, 20)
                os.close(person)
                assert await trio.to_thread.run_sync(process.wait) == 1
    assert "interrupted" in json.dumps(json.loads(report.read_text()))


@pytest.mark.real
async def test_a_hangup_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    """As under nohup. The terminal is gone as well."""
    folder, report, broker = capture(tmp_path / "capture", 60), tmp_path / "report.json", LoopbackBroker()
    person, terminal = os.openpty()
    async with serving(broker) as target:
        with program(
            folder,
            target.bootstrap[0][1],
            report,
            stdout=subprocess.DEVNULL,
            stderr=terminal,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
        ) as process:
            os.close(terminal)
            with trio.fail_after(PATIENCE):
                await plays(broker, process, 10)
                process.send_signal(signal.SIGHUP)
                os.close(person)
                assert await trio.to_thread.run_sync(process.wait) == 0
    assert "interrupted" not in report.read_text()
    assert len(broker.asked) >= ASKED_BEFORE + 60
