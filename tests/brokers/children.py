"""Child processes that never outlive the test run.

A finalizer stops each child by its own pid. If the test run is killed, the kernel kills the children
(PR_SET_PDEATHSIG). That signal is tied to the *thread* that started the child, so start children from a thread that
lives as long as they may: in pytest, the main thread.
"""

import ctypes
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

PR_SET_PDEATHSIG = 1
# A proxy that records keeps 5 % of the volume free by default: on a full disk, what a test records would be removed. A
# proxy that doesn't record refuses the variable.
KEEPS_NOTHING_FREE = {"KAFKA_WIRETAP_CAPTURE__KEEP__FREE": "0"}
_LIBC = ctypes.CDLL(None)


def _die_with_parent() -> None:
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def spawn(
    command: Sequence[str],
    *,
    output: Path | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    **popen: Any,
) -> subprocess.Popen[Any]:
    """Start a child in a session of its own, so that Ctrl-C reaches it only through its finalizer.

    What a child with `--record` records stays, however full the volume is.

    Args:
        output: a file that both of the child's outputs are appended to.
        popen: anything else that `subprocess.Popen` takes.
    """
    log: IO[bytes] | None = output.open("ab") if output else None
    if "--record" in command:
        env = KEEPS_NOTHING_FREE | dict(os.environ if env is None else env)
    try:
        if log:
            popen |= {"stdout": log, "stderr": subprocess.STDOUT}
        popen = {"stdin": subprocess.DEVNULL} | popen
        return subprocess.Popen(command, env=env, cwd=cwd, start_new_session=True, preexec_fn=_die_with_parent, **popen)
    finally:
        if log:
            log.close()


def spoken_with(command: Sequence[str], **more: Any) -> tuple[subprocess.Popen[str], IO[str], IO[str]]:
    """Start a child whose input and output are pipes of text; they stand behind it. `more`: as of `spawn`."""
    child: subprocess.Popen[str] = spawn(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **more)
    assert child.stdin is not None
    assert child.stdout is not None
    return child, child.stdin, child.stdout


def input_of(child: subprocess.Popen[Any]) -> IO[Any]:
    """The pipe that a child reads."""
    assert child.stdin is not None
    return child.stdin


def close_pipes(child: subprocess.Popen[Any]) -> None:
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()


def stop(child: subprocess.Popen[Any], *, seconds: float = 15) -> int:
    """End a child: SIGTERM, and SIGKILL once its time is up. Returns its exit code; fine with one that has ended."""
    if child.poll() is None:
        child.terminate()
    try:
        return child.wait(seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        return child.wait()
