"""Several processes that stand for the same clusters: a parent that accepts nothing, and workers that do the work.

The parent owns what there must be one of: listeners, node tables and state files, discovery, the admin page. Workers
are fresh processes that accept on the same listening sockets. They ask the parent for whatever they can't know.

job.py       the settings that a worker gets at its start
channel.py   messages and sockets between parent and worker
calls.py     requests and answers over a channel
supervisor.py   keeps the workers running, and speaks to all of them
worker_handle.py   one worker, as the parent sees it
totals.py    the counts of all workers
balance.py   connections spread over the workers
parent.py    the parent: a proxy whose connections are elsewhere
worker.py    a worker: a proxy whose listeners come from elsewhere
mirror.py    a worker's copy of the node table, and its way to the brokers
"""

from proxy.net.workers.job import Job
from proxy.net.workers.parent import run_workers
from proxy.net.workers.worker import run_worker

__all__ = ["Job", "run_worker", "run_workers"]
