import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

import pytest
import trio
import trio.testing
from trio.testing import wait_all_tasks_blocked

from proxy.net import children
from proxy.net.children import (
    BEAT_SECONDS,
    FIRST_PAUSE,
    HUNG_SECONDS,
    LONGEST_PAUSE,
    START_FACTOR,
    WELL_SECONDS,
    look_after,
)
from tests.proxy.net.peers import PATIENCE
from tests.proxy.net.threads import no_threads

# the id of no process, so that nothing is known of its processor time
NOBODY = 2**31 - 1


class Child:
    """A process that ends after the given seconds, one number for each start; after these, it never ends."""

    def __init__(self, *lives: float) -> None:
        self.lives = list(lives)
        self.starts: list[float] = []
        self.ends: list[float] = []
        self.options: dict[str, object] = {}
        self.stdin = None
        self.stdout: trio.abc.ReceiveStream | None = None
        self.pid = NOBODY

    async def open_process(self, command: list[str], **options: object) -> "Child":
        self.starts.append(trio.current_time())
        self.options = options
        return self

    def note_end(self) -> None:
        self.ends.append(trio.current_time())

    async def wait(self) -> int:
        if not self.lives:
            await trio.sleep_forever()
        await trio.sleep(self.lives.pop(0))
        return 1


@pytest.fixture
def start(monkeypatch, nursery):
    def start(child: Child) -> Child:
        monkeypatch.setattr(trio.lowlevel, "open_process", child.open_process)
        nursery.start_soon(look_after, ["compactor", "--follow"], child.note_end)
        return child

    return start


def pauses(child: Child, lives: list[float]) -> list[float]:
    gaps = [later - earlier for earlier, later in zip(child.starts, child.starts[1:], strict=False)]
    return [round(gap - life, 3) for gap, life in zip(gaps, lives, strict=True)]


async def test_a_child_that_ends_is_started_again_after_ever_longer_pauses(start, autojump_clock):
    lives = [0.1] * 9
    child = start(Child(*lives))
    await trio.sleep(1000)
    assert pauses(child, lives) == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert (FIRST_PAUSE, LONGEST_PAUSE) == (0.5, 30)


async def test_the_pause_is_short_again_after_a_long_life_of_the_child(start, autojump_clock):
    lives = [0.1, 0.1, WELL_SECONDS + 1, 0.1]
    child = start(Child(*lives))
    await trio.sleep(1000)
    assert pauses(child, lives) == [0.5, 1, 0.5, 1]


async def test_each_end_of_a_child_is_logged_when_it_happens(start, autojump_clock):
    child = start(Child(3, 2))
    await trio.sleep(1000)
    assert child.ends == [started + life for started, life in zip(child.starts, (3, 2), strict=False)]


async def test_a_child_that_cannot_be_started_is_tried_again(monkeypatch, nursery, autojump_clock, caplog):
    tries = []

    async def missing(command: list[str], **options: object) -> None:
        tries.append(command)
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(trio.lowlevel, "open_process", missing)
    ends: list[bool] = []
    nursery.start_soon(look_after, ["compactor"], lambda: ends.append(True))
    await trio.sleep(2)
    assert len(tries) == len(ends) == 3
    assert "No such file" in caplog.records[0].keys["reason"]
    assert caplog.records[0].levelno == logging.WARNING


class Watched(Child):
    """A process that gives signs of life at these seconds after its start, and then none; it ends when it is killed."""

    def __init__(self, *signs: float, pid: int = NOBODY) -> None:
        super().__init__()
        self.signs, self.pid = signs, pid
        self.hung: list[float] = []

    async def open_process(self, command: list[str], **options: object) -> "Watched":
        await super().open_process(command, **options)
        self._ended = trio.Event()
        self._send, self.stdout = trio.testing.memory_stream_one_way_pair()
        return self

    def note_hang(self) -> None:
        self.hung.append(trio.current_time() - self.starts[-1])

    def kill(self) -> None:
        self._ended.set()

    async def wait(self) -> int:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._give_signs)
            await self._ended.wait()
            nursery.cancel_scope.cancel()
        return -9

    async def _give_signs(self) -> None:
        for at in self.signs:
            await trio.sleep_until(self.starts[-1] + at)
            await self._send.send_all(b".")


def watched(monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery, child: Watched) -> Watched:
    monkeypatch.setattr(trio.lowlevel, "open_process", child.open_process)
    nursery.start_soon(partial(look_after, ["live"], child.note_end, on_hang=child.note_hang))
    return child


async def test_a_child_that_gives_no_sign_of_life_is_killed_and_started_again(
    monkeypatch, nursery, autojump_clock, caplog
):
    child = watched(monkeypatch, nursery, Watched(*range(100)))
    await trio.sleep(99 + 1.5 * HUNG_SECONDS)
    assert child.hung == [pytest.approx(99 + HUNG_SECONDS, abs=2 * BEAT_SECONDS)]
    assert len(child.starts) == 2
    assert caplog.records[0].getMessage() == "child process hangs; killed"
    assert caplog.records[1].keys["reason"] == "exit code -9"


async def test_a_child_may_take_longer_until_its_first_sign_of_life(monkeypatch, nursery, autojump_clock):
    child = watched(monkeypatch, nursery, Watched())
    await trio.sleep(1.5 * START_FACTOR * HUNG_SECONDS)
    assert child.hung == [pytest.approx(START_FACTOR * HUNG_SECONDS, abs=2 * BEAT_SECONDS)]


async def test_a_child_is_not_killed_for_seconds_in_which_its_proxy_had_no_turn(monkeypatch, nursery, mock_clock):
    child = watched(monkeypatch, nursery, Watched(0.0))
    for _ in range(round(HUNG_SECONDS / 2)):
        await wait_all_tasks_blocked()
        # the proxy is suspended for a minute
        mock_clock.jump(60)
    await wait_all_tasks_blocked()
    assert not child.hung


async def test_a_child_is_not_killed_for_seconds_in_which_it_waited_for_a_processor(
    monkeypatch, nursery, autojump_clock
):
    # that of these tests, which runs, and has the processor for little of the clock's time
    child = watched(monkeypatch, nursery, Watched(0.0, pid=os.getpid()))
    await trio.sleep(3 * HUNG_SECONDS)
    assert not child.hung


@pytest.fixture
def behind_a_thread() -> Iterator[int]:
    """The id of a process whose main thread sleeps while another one runs."""
    code = """
import os, threading
def run():
    os.write(1, b"\\n")
    while True:
        pass
threading.Thread(target=run).start()
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


async def test_a_child_is_not_killed_while_any_of_its_threads_waits_for_a_processor(
    monkeypatch, nursery, autojump_clock, behind_a_thread
):
    child = watched(monkeypatch, nursery, Watched(0.0, pid=behind_a_thread))
    await trio.sleep(1.2 * HUNG_SECONDS)
    assert not child.hung


@pytest.mark.real
@pytest.mark.parametrize("hangs", ["os.kill(os.getpid(), signal.SIGSTOP)", "os.close(1); time.sleep(60)"])
async def test_a_real_child_that_is_stopped_or_sleeps_is_killed(monkeypatch, hangs):
    monkeypatch.setattr(children, "HUNG_SECONDS", 0.2)
    monkeypatch.setattr(children, "BEAT_SECONDS", 0.05)
    # none is started again, and left behind
    monkeypatch.setattr(children, "FIRST_PAUSE", 1000.0)
    code, killed = f"import os, signal, time; os.write(1, b'.'); {hangs}", trio.Event()
    ended: list[int] = []
    async with trio.open_nursery() as nursery:
        command = [sys.executable, "-c", code]
        nursery.start_soon(partial(look_after, command, lambda: ended.append(1), on_hang=killed.set))
        with trio.fail_after(PATIENCE):
            await killed.wait()
            while not ended:
                await wait_all_tasks_blocked(0.01)
        nursery.cancel_scope.cancel()


async def test_a_child_survives_its_supervisor_and_is_detached_from_its_terminal():
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    opened: list[trio.Process] = []

    async def watched() -> None:
        real = trio.lowlevel.open_process

        async def noted(*args, **options):
            process = await real(*args, **options)
            opened.append(process)
            return process

        trio.lowlevel.open_process = noted
        try:
            await look_after(command, lambda: None)
        finally:
            trio.lowlevel.open_process = real

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watched)
        with trio.fail_after(PATIENCE):
            while not opened:
                await wait_all_tasks_blocked(0.01)
        nursery.cancel_scope.cancel()
    (process,) = opened
    try:
        assert process.poll() is None
        assert os.getsid(process.pid) == process.pid
    finally:
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()


async def test_a_child_that_no_thread_can_start_is_tried_again(nursery, autojump_clock, caplog):
    ends: list[bool] = []
    with no_threads():
        nursery.start_soon(look_after, [sys.executable, "-c", ""], lambda: ends.append(True))
        await trio.sleep(2)
        nursery.cancel_scope.cancel()
    assert len(ends) == 3
    assert "no thread can be had" in caplog.records[0].keys["reason"]


async def test_what_a_child_is_given_is_on_its_standard_input_alone(tmp_path):
    out = tmp_path / "out"
    told = "import os, sys; print(sys.argv[1:], sys.stdin.read(), 'secret' in str(os.environ), file=open('%s', 'w'))"
    ended = trio.Event()
    async with trio.open_nursery() as nursery:
        command = [sys.executable, "-c", told % out, "argument"]
        nursery.start_soon(look_after, command, ended.set, b"secret" * 20_000)
        with trio.fail_after(PATIENCE):
            await ended.wait()
        nursery.cancel_scope.cancel()
    assert out.read_text() == f"['argument'] {'secret' * 20_000} False\n"


async def test_a_child_that_reads_nothing_of_what_it_is_given_is_started_again():
    ends: list[bool] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(look_after, [sys.executable, "-c", ""], lambda: ends.append(True), b"secret" * 20_000)
        with trio.fail_after(PATIENCE):
            while len(ends) < 2:
                await wait_all_tasks_blocked(0.01)
        nursery.cancel_scope.cancel()
