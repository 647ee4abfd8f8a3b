"""Sockets: the only room of `proxy` that imports trio.

connection/      passes the bytes of one connection in both directions, and rewrites responses that name brokers
brokers/         the cluster behind the proxy: a listener for each node; brokers are dialled, and queried for the nodes
sockets/         streams of chunks, and waiting for them; TLS, the PROXY protocol, look-ups of host names
limits/          limits on connections, held bytes, idle time, and on what the recorder takes
state/           the file that keeps nodes and ports over restarts
workers/         a proxy of several processes
doctor/          examines a cluster's brokers step by step, without a proxy

server.py        the whole proxy: clusters, admin page, drain
cluster.py       one cluster: listeners and their connections
reloading.py     reads the settings again at SIGHUP
change.py        commits prepared changes of settings: all of them, or none
stopping.py      how the proxy ends, whatever hangs
children.py      keeps the recorder's compactor running, and what ships the capture
systemd.py       notifies systemd
heartbeat.py     whether the event loop runs, and how late it is
blocking.py      runs blocking calls in threads that nothing else uses
log_throttle.py  throttles log events that peers can cause at will
"""

from proxy.net.change import Change
from proxy.net.reloading import ReloadedSettings
from proxy.net.server import Proxy, run
from proxy.net.state.claims import StateClaims

__all__ = ["Change", "Proxy", "ReloadedSettings", "StateClaims", "run"]
