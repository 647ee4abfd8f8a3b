"""Sockets: the only room that knows trio.

server.py       the whole: clusters, admin page, drain
reloading.py    settings that are read again
stopping.py     how all of it ends, however much hangs
cluster.py      one cluster: listeners and their connections
relay.py        the bytes of one connection, there and back
rewriting.py    a response that names brokers, on its way through
nodes.py        a listener for each node, opened before it is advertised
lately.py       what was found out lately
own.py          what the proxy itself listens on and is called, so as not to dial itself
upstreams.py    the brokers: dialled for clients, asked for their nodes
bootstrap.py    which bootstrap server is tried first
race.py         several attempts, of which the first that succeeds counts
lookups.py      names of hosts, looked up in threads
question.py     the question for nodes itself
streams.py      a TCP connection as a stream of chunks
door.py         how many are let in
greeting.py     the PROXY protocol's header, read from a client's connection
proxy_protocol.py   the header itself: bytes and addresses
idle.py         the end of connections over which nothing goes
held.py         the limit on bytes held in all connections
systemd.py      what the service manager is told
pulse.py        whether the event loop runs
state.py        the file that keeps nodes and ports over restarts
keeper.py       the thread that writes it
claims.py       which file that is, and whose
room.py         where sockets wait for the recorder
observer.py     who watches the bytes go by
children.py     the process that is kept running beside the proxy
"""

from proxy.net.claims import Claims
from proxy.net.observer import Observer, Opened
from proxy.net.reloading import Change, InEffect
from proxy.net.server import run

__all__ = ["Change", "Claims", "InEffect", "Observer", "Opened", "run"]
