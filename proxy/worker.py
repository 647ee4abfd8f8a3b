"""The program of a worker's process. The parent starts it (`proxy/net/workers/parent.py`).

    python -m proxy.worker CHANNEL COUNTS

CHANNEL and COUNTS are inherited file descriptors: the worker's end of the channel, and the memory of
`ConnectionCounts`. The worker's `Job` comes on standard input. As `cli.py` does, this module connects the recorder with
the proxy.
"""

from __future__ import annotations

import sys
from logging import ERROR

from proxy.log import log, log_to_stderr
from proxy.net.workers import run_worker
from proxy.net.workers.job import read_job
from proxy.schema.errors import BadSetting
from proxy.standard_error import queue_standard_error
from proxy.wiring import recorder


def main() -> int:
    """Returns the exit code: that of `run_worker`; 2 if the recorder can't begin."""
    channel, counts = map(int, sys.argv[1:])
    try:
        job = read_job(sys.stdin.buffer)
    except EOFError:
        # the parent was killed before it had written the whole job
        return 0
    log_to_stderr(job.settings.log.level, job.settings.log.format, worker=job.number)
    try:
        return run_worker(job, (channel, counts), *recorder(job.recording, job.settings))
    except BadSetting as error:
        log(ERROR, "worker can't begin", reason=error)
        return 2


if __name__ == "__main__":
    queue_standard_error()
    sys.exit(main())
