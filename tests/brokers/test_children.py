"""Tests that children end with their parent, however it ends."""

import sys
from pathlib import Path

import psutil
import pytest

from tests.brokers import children
from tests.brokers.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]

# starts a child, prints its pid and waits to be killed
PARENT = """
from tests.brokers import children
print(children.spawn(["sleep", "600"]).pid, flush=True)
input()
"""
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); signal.pause()"


def test_a_child_dies_with_a_killed_test_run() -> None:
    parent, _, said = children.spoken_with([sys.executable, "-c", PARENT], cwd=ROOT)
    child = psutil.Process(int(said.readline()))
    parent.kill()
    parent.wait()
    wait_for(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, "the child to die")
    children.close_pipes(parent)


def test_a_child_that_ignores_sigterm_is_killed() -> None:
    child, _, said = children.spoken_with([sys.executable, "-c", STUBBORN])
    said.readline()
    assert children.stop(child, seconds=0.1) == -9
    children.close_pipes(child)


def test_a_child_that_has_ended_keeps_its_exit_code() -> None:
    child = children.spawn([sys.executable, "-c", "raise SystemExit(7)"])
    child.wait()
    assert children.stop(child) == 7


def test_both_outputs_of_a_child_go_to_its_file(tmp_path: Path) -> None:
    script = "import sys; print('out', flush=True); print('err', file=sys.stderr)"
    children.spawn([sys.executable, "-c", script], output=tmp_path / "log").wait()
    assert (tmp_path / "log").read_text() == "out\nerr\n"


@pytest.mark.parametrize("env", [None, {}])
def test_only_a_child_that_records_is_told_to_keep_nothing_free(env: dict[str, str] | None, tmp_path: Path) -> None:
    script = "import os; print(os.environ.get('KAFKA_WIRETAP_CAPTURE__KEEP__FREE'))"
    for more in (["--record", "capture"], []):
        children.spawn([sys.executable, "-c", script, *more], output=tmp_path / "log", env=env).wait()
    assert (tmp_path / "log").read_text() == "0\nNone\n"


def test_a_setting_of_the_test_itself_wins(tmp_path: Path) -> None:
    script = "import os; print(os.environ['KAFKA_WIRETAP_CAPTURE__KEEP__FREE'])"
    env = {"KAFKA_WIRETAP_CAPTURE__KEEP__FREE": "10%"}
    children.spawn([sys.executable, "-c", script, "--record"], output=tmp_path / "log", env=env).wait()
    assert (tmp_path / "log").read_text() == "10%\n"


def test_waiting_ends_when_it_is_hopeless() -> None:
    with pytest.raises(RuntimeError, match=r"no use in waiting for the impossible: it died"):
        wait_for(lambda: False, "the impossible", hopeless=lambda: "it died")


def test_waiting_ends_when_the_time_is_up() -> None:
    with pytest.raises(TimeoutError, match=r"gave up waiting for the impossible"):
        wait_for(lambda: False, "the impossible", seconds=0)
