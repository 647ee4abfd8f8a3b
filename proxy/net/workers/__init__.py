"""A proxy of several processes: a parent that has the listeners, and workers that have the connections.

The parent owns everything that may exist only once: listeners, node tables and state files, discovery, the admin page.
Workers are new processes that accept on the parent's listening sockets. They ask the parent to open listeners for nodes
and to discover nodes.

parent.py          the parent's process: a proxy without connections
supervisor.py      keeps the workers running, and sends messages to all of them
worker_handle.py   one worker as the parent sees it
process.py         a worker's process, and the job on its standard input
totals.py          the counts of all workers
worker.py          a worker's process: a proxy whose listeners are the parent's
mirror.py          a worker's copy of the node table, and its connections to brokers
balance.py         spreads connections over the workers
job.py             the settings that a worker gets
channel.py         messages and sockets between parent and worker
calls.py           requests and answers over a channel
"""

from proxy.net.workers.job import Job
from proxy.net.workers.parent import Parent
from proxy.net.workers.worker import run_worker

__all__ = ["Job", "Parent", "run_worker"]
