"""Tests of child processes: they, and what they left behind, end with the block that started them."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from recorder.demo.children import ChildFailed, children
from tests.brokers.waiting import PATIENCE

SLEEPER = "import sys, time; print('pid 1', file=sys.stderr, flush=True); time.sleep(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPER}"
# starts a grandchild in a session of its own, as the proxy does with its compactor, and ends
PARENT = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {SLEEPER!r}], start_new_session=True)
print("grandchild", child.pid, file=sys.stderr, flush=True)
"""
READY = r"pid (\d)"


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def running(pid: int) -> bool:
    return psutil.pid_exists(pid) and bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)


@pytest.mark.parametrize("program", [SLEEPER, STUBBORN], ids=["willing", "stubborn"])
@pytest.mark.real
def test_a_child_is_gone_after_the_block(tmp_path: Path, program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recorder.demo.children._GRACE", 0.3)
    with children(tmp_path) as started:
        child = started.start("sleeper", python(program))
        child.announced(READY, within=PATIENCE)
        assert running(child.process.pid)
    assert not running(child.process.pid)


def interrupted(logs: Path, interrupt: Callable[[], None]) -> psutil.Process:
    """Starts a child in a block, and interrupts the block in this way."""
    with suppress(KeyboardInterrupt), children(logs) as started:
        child = started.start("sleeper", python(SLEEPER))
        child.announced(READY, within=PATIENCE)
        process = psutil.Process(child.process.pid)
        interrupt()
        raise AssertionError("the interrupt did not come through")
    return process


def test_a_child_is_gone_when_the_block_is_interrupted(tmp_path: Path) -> None:
    assert not interrupted(tmp_path, lambda: signal.raise_signal(signal.SIGINT)).is_running()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_programs_ends_the_block_as_ctrl_c_does(tmp_path: Path, number: signal.Signals) -> None:
    before = signal.getsignal(number)
    assert not interrupted(tmp_path, lambda: signal.raise_signal(number)).is_running()
    assert signal.getsignal(number) is before


def test_ctrl_c_while_a_child_is_being_forked_is_not_lost(tmp_path: Path) -> None:
    program = f"""
import os, signal, sys
from pathlib import Path
from recorder.demo.children import children
os.register_at_fork(before=lambda: signal.raise_signal(signal.SIGINT))
try:
    with children(Path({str(tmp_path)!r})) as started:
        started.start("sleeper", [sys.executable, "-c", {SLEEPER!r}])
        print("lost")
except KeyboardInterrupt:
    print("interrupted")
"""
    done = subprocess.run(python(program), capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.stdout, done.stderr) == ("interrupted\n", "")


def test_a_grandchild_in_its_own_session_is_waited_for_and_then_ended(tmp_path: Path) -> None:
    with children(tmp_path) as started:
        child = started.start("parent", python(PARENT))
        grandchild = int(child.announced(r"grandchild (\d+)\n", within=PATIENCE))
        child.process.wait(PATIENCE)
        assert running(grandchild)
        assert not started.orphans_gone(within=0)
    assert not running(grandchild)


def test_orphans_that_end_by_themselves_are_noticed(tmp_path: Path) -> None:
    brief = PARENT.replace("time.sleep(600)", "sys.stdin.read()")
    with children(tmp_path) as started:
        child = started.start("parent", python(brief))
        child.announced(r"grandchild (\d+)\n", within=PATIENCE)
        child.end()
        assert started.orphans_gone(within=PATIENCE)


def test_children_die_with_a_demo_that_is_killed(tmp_path: Path) -> None:
    program = f"""
import sys
from pathlib import Path
from recorder.demo.children import children
with children(Path({str(tmp_path)!r})) as started:
    child = started.start("sleeper", [sys.executable, "-c", {SLEEPER!r}])
    child.announced({READY!r}, within={PATIENCE})
    print(child.process.pid, flush=True)
    sys.stdin.read()
"""
    with subprocess.Popen(python(program), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        child = psutil.Process(int(demo.stdout.readline()))
        demo.kill()
    gone, _ = psutil.wait_procs([child], timeout=PATIENCE)
    assert gone


def test_a_child_that_ends_before_it_is_ready_names_its_log(tmp_path: Path) -> None:
    with children(tmp_path) as started:
        child = started.start("broken part", python("import sys; sys.exit('no luck')"))
        with pytest.raises(ChildFailed, match="the broken part ended early") as caught:
            child.announced(READY, within=PATIENCE)
    assert caught.value.log.read_text() == "no luck\n"


def test_a_child_that_never_reports_is_not_waited_for(tmp_path: Path) -> None:
    with children(tmp_path) as started:
        child = started.start("mute", python("import sys; sys.stdin.read()"))
        with pytest.raises(ChildFailed, match="the mute did not become ready in time"):
            child.announced(READY, within=0)
