"""Runs compactions that are killed: one per line on stdin, each in a process of its own.

    FOLDER SESSION STEP [KEYS]  ->  killed | finished | waiting, and the steps that were begun

`KEYS`: what the proxy of an encrypted log hands its compactor, in hex.

The child kills itself with SIGKILL before the given step (counted from 0; -1: never). It is forked from a process that
has imported everything and started no thread, so hundreds of them take seconds.
"""

import os
import signal
import sys
from pathlib import Path

import pyarrow as pa

from proxy.wire import apis
from recorder.capture.compactor import compact_session
from recorder.capture.handover import decoded


def run(folder: Path, session: str, last: int, keys: str, out: int) -> None:
    begun = 0

    def step(name: str) -> None:
        nonlocal begun
        if begun == last:
            os.kill(os.getpid(), signal.SIGKILL)
        begun += 1
        os.write(out, b".")

    handover = decoded(bytes.fromhex(keys)) if keys else None
    done = compact_session(folder, session, before_step=step, handover=handover)
    os._exit(0 if done.finished else 1)


def main() -> None:
    # the page cache survives a kill; syncs would only make hundreds of compactions slow
    os.fsync = lambda fd: None
    # imports and first reads happen once for all of them
    pa.array([1])
    apis.known(0, 0)
    for line in sys.stdin:
        folder, session, last, keys = [*line.split(), ""][:4]
        read, write = os.pipe()
        child = os.fork()
        if not child:
            run(Path(folder), session, int(last), keys, write)
        os.close(write)
        steps = 0
        while some := os.read(read, 1 << 16):
            steps += len(some)
        os.close(read)
        _, status = os.waitpid(child, 0)
        how = "killed" if os.WIFSIGNALED(status) else "waiting" if os.WEXITSTATUS(status) else "finished"
        print(how, steps, flush=True)


if __name__ == "__main__":
    main()
