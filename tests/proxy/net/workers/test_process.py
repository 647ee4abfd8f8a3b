from __future__ import annotations

import subprocess
import sys

import trio

from proxy.net.workers.process import WorkerProcess
from tests.brokers.waiting import PATIENCE

# larger than a pipe
JOB = b"x" * 1_000_000


async def started(program: str) -> WorkerProcess:
    command = [sys.executable, "-c", program]
    return WorkerProcess(await trio.lowlevel.open_process(command, stdin=subprocess.PIPE), JOB)


async def test_a_worker_process_reads_its_whole_job():
    process = await started(f"import sys; sys.exit(len(sys.stdin.buffer.read()) != {len(JOB)})")
    with trio.fail_after(PATIENCE):
        await process.send_job()
        assert await process.wait() == 0


async def test_sending_a_job_to_an_ended_process_raises_nothing():
    process = await started("import sys; sys.exit(3)")
    with trio.fail_after(PATIENCE):
        await process.send_job()
        assert await process.wait() == 3


async def test_a_process_that_does_not_read_its_job_can_be_killed(nursery):
    process = await started("import time; time.sleep(1000)")
    nursery.start_soon(process.send_job)
    process.kill()
    with trio.fail_after(PATIENCE):
        assert await process.wait() == -9
