"""Sockets: the only room that knows trio.

connection/      the bytes of one connection, there and back; a response that names brokers, on its way through
brokers/         the cluster behind the proxy: a listener for each node, brokers dialled and asked for their nodes
sockets/         streams of chunks and waiting for them; TLS, the PROXY protocol, names of hosts
limits/          on connections, on bytes held, on what the recorder takes, on idleness
state/           the file that keeps nodes and ports over restarts
workers/         all of it over several processes

cluster.py       one cluster: listeners and their connections
server.py        the whole: clusters, admin page, drain
reloading.py     settings that are read again; change.py: changes that are applied together or not at all
stopping.py      how the proxy ends, however much hangs
children.py      the process that is kept running beside the proxy
systemd.py       notifications to the service manager
heartbeat.py     a probe that tells whether the event loop runs
observer.py      the interface of the recorder, which is told of every byte
blocking.py      calls that block, beside the event loop: in threads that nothing else waits for
log_throttle.py  the level of log events that clients can bring about at will
"""

from proxy.net.change import Change
from proxy.net.observer import Observer, OpenedConnection
from proxy.net.reloading import ReloadedSettings
from proxy.net.server import run
from proxy.net.state.claims import StateClaims

__all__ = ["Change", "Observer", "OpenedConnection", "ReloadedSettings", "StateClaims", "run"]
