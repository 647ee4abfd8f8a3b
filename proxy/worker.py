"""A worker's process: started by the parent with two files that they share; its job comes over standard input.

    python -m proxy.worker CHANNEL PLACES

Like the command line it is part of the outermost ring: it connects the recorder with the proxy, for the job's settings.
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
    """Exit code 0; 1 when something was cut off; 2 for a capture that can't be begun."""
    channel, places = map(int, sys.argv[1:])
    try:
        job = read_job(sys.stdin.buffer)
    except EOFError:
        # the parent was killed before it had written the whole job
        return 0
    log_to_stderr(job.settings.log.level, job.settings.log.format, worker=job.number)
    try:
        return run_worker(job, (channel, places), *recorder(job.recording, job.settings))
    except BadSetting as error:
        log(ERROR, "worker can't begin", reason=error)
        return 2


if __name__ == "__main__":
    queue_standard_error()
    sys.exit(main())
