"""The proxy as a whole: listeners, their connections, and how all of it stops.

Two nurseries: the inner one accepts, the outer one finishes what was accepted. SIGTERM ends the inner one; exchanges
in flight get `drain_seconds`; then the observer writes what it has, and `run` returns.
"""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from logging import DEBUG, ERROR, INFO, WARNING

import trio

from proxy.config import BadSetting, ProxySettings
from proxy.conversation import Cause, Conversation, Routes
from proxy.conversation.routes import API_VERSIONS
from proxy.log import log
from proxy.metrics.admin import Server, admin_app, serve_admin
from proxy.metrics.collector import registry
from proxy.metrics.traffic import Traffic
from proxy.net.children import look_after
from proxy.net.held import HeldBytes
from proxy.net.nodes import Nodes, bind
from proxy.net.observer import Observer, Opened
from proxy.net.question import NoAnswer, ask_for_nodes
from proxy.net.relay import Relay, Shared
from proxy.net.rewriting import is_rewritten
from proxy.net.room import Room
from proxy.net.state import read_state
from proxy.net.streams import PeerLost, Stream, accepted, dial
from proxy.rewrite import addresses, api_versions
from proxy.rewrite.nodes import Address
from proxy.wire import catalog
from proxy.wire.apis import Kind

# pauses between two questions that nobody answered, in seconds
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
# accept() fails with EMFILE and the like: wait for a connection to end
ACCEPT_PAUSE = 0.1

EXIT_CLEAN, EXIT_CUT_OFF = 0, 1


def run(
    settings: ProxySettings,
    observer: Observer | None = None,
    child: Sequence[str] | None = None,
    ready: Callable[[Address, Address | None], None] = lambda listening, metrics: None,
) -> int:
    """Runs a proxy until SIGTERM or SIGINT.

    Args:
        observer: is told of every byte; closed at the end.
        child: a command to keep running meanwhile.
        ready: called once with the bootstrap listener's address and the admin page's.

    Returns:
        0; 1 when the deadline of the drain cut something off.

    Raises:
        BadSetting: an address can't be listened on.
    """
    return trio.run(Proxy(settings, observer, child, ready).run)


def routes() -> Routes:
    """What a proxy does with which frames: see docs/proxy.md."""
    return Routes(
        mark_request=partial(_holds_secret, "request"),
        mark_response=lambda key, version: is_rewritten(key, version) or _holds_secret("response", key, version),
        answered=lambda key, version: key == API_VERSIONS and version > api_versions.newest_known(),
        refused=_is_refused,
    )


def _holds_secret(kind: Kind, key: int, version: int) -> bool:
    if catalog.known(key, version):
        return bool(catalog.secrets(kind, key, version))
    return catalog.may_hold_secrets(kind, key)


def _is_refused(key: int, version: int) -> bool:
    """An answer that would name brokers where the proxy does not know to look."""
    newest = addresses.newest(key)
    return newest is not None and version > newest


class Proxy:
    def __init__(
        self,
        settings: ProxySettings,
        observer: Observer | None,
        child: Sequence[str] | None,
        ready: Callable[[Address, Address | None], None],
    ) -> None:
        self._settings = settings
        self._observer = observer
        self._child = child
        self._ready = ready
        self._routes = routes()
        self._traffic = Traffic()
        try:
            known = read_state(settings.state)
        except ValueError as error:
            raise BadSetting(str(error)) from error
        self._nodes = Nodes(settings, self._serve_node, known, observer)
        room = Room(observer) if observer is not None else None
        self._shared = Shared(settings, self._nodes, self._traffic, HeldBytes(settings.held_in_all), observer, room)
        self._relays: set[Relay] = set()
        self._numbers = itertools.count(1)
        self._asking = trio.Lock()
        self._upstream_reached = False
        self._draining = False
        self._open = 0
        self._ended = trio.Event()
        self._connections: trio.Nursery
        self._accepting: trio.Nursery

    async def run(self) -> int:
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async with trio.open_nursery() as self._connections:
                admin = self._serve_admin()
                try:
                    await self._accept_until(signals, admin)
                    code = await self._drain()
                finally:
                    if admin is not None:
                        admin.close()
                self._connections.cancel_scope.cancel()
        if self._observer is not None:
            await trio.to_thread.run_sync(self._observer.close)
        log(INFO, "stopped", exit_code=code)
        return code

    async def _accept_until(self, signals: AsyncIterator[int], admin: Server | None) -> None:
        """Listens and accepts until a signal comes."""
        async with trio.open_nursery() as self._accepting:
            listening = await self._listen()
            await self._nodes.listen_for_known()
            if self._child is not None:
                self._accepting.start_soon(look_after, self._child)
            self._accepting.start_soon(self._ask_until_answered)
            self._ready(listening, Address(admin.host, admin.port) if admin else None)
            async for number in signals:
                log(INFO, "stopping", signal=signal.Signals(number).name)
                break
            self._accepting.cancel_scope.cancel()

    async def _listen(self) -> Address:
        wanted = self._settings.listen
        try:
            sock = bind(wanted)
        except OSError as error:
            raise BadSetting(
                f"--listen {wanted} can't be had ({error.strerror}); right would be a free port"
            ) from error
        listening = Address(wanted.host, sock.getsockname()[1])
        self._nodes.add_own(listening, Address(self._settings.ports.advertise or wanted.host, listening.port))
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(sock))
        self._accepting.start_soon(self._serve, listener, None)
        return listening

    def _serve_admin(self) -> Server | None:
        where = self._settings.metrics
        if where is None:
            return None
        counters = self._observer.counters if self._observer is not None else None
        page = admin_app(registry(self._traffic, counters, self._nodes.listeners), self._is_ready)
        try:
            return serve_admin(page, where.host, where.port)
        except OSError as error:
            raise BadSetting(
                f"--metrics {where} can't be had ({error.strerror}); right would be a free port"
            ) from error

    def _is_ready(self) -> tuple[bool, str]:
        reasons = []
        if self._draining:
            reasons.append("stopping")
        if not self._upstream_reached:
            reasons.append("no upstream broker could be reached")
        if self._observer is not None and self._observer.counters().get("failed"):
            reasons.append("the capture can't be written")
        return not reasons, "; ".join(reasons) or "ready"

    async def _serve_node(self, listener: trio.SocketListener, node_id: int) -> None:
        """Accepts for a node from now on: the socket listens already, so nobody is turned away until the task runs."""
        self._accepting.start_soon(self._serve, listener, node_id)

    async def _serve(self, listener: trio.SocketListener, node_id: int | None) -> None:
        host, port = listener.socket.getsockname()[:2]
        here = str(Address(host, port))
        async with listener:
            while True:
                try:
                    sock, peer = await listener.socket.accept()
                except OSError as error:
                    log(WARNING, "a connection can't be accepted", listener=here, reason=error.strerror)
                    await trio.sleep(ACCEPT_PAUSE)
                    continue
                stream = accepted(sock, str(Address(*peer[:2])))
                self._connections.start_soon(self._connection, stream, node_id, here)

    async def _connection(self, client: Stream, node_id: int | None, listener: str) -> None:
        """One client, from its first byte to its last. Whatever goes wrong in it ends it alone."""
        number = next(self._numbers)
        self._traffic.opened()
        self._open += 1
        # what is left of it if it is cancelled
        cause, talk = Cause.DRAIN_DEADLINE, Conversation(self._routes, self._settings.limits)
        try:
            cause = await self._relayed(number, client, talk, node_id, listener)
        except* Exception:
            cause = Cause.PROXY_FAULT
            log(ERROR, "fault in a connection", trace=True, connection=number)
        finally:
            client.close()
            self._open -= 1
            self._ended.set()
            self._traffic.closed(cause, talk.in_flight)
            log(DEBUG, "connection closed", connection=number, client=client.peer, node=node_id, cause=cause.value)

    async def _relayed(
        self, number: int, client: Stream, talk: Conversation, node_id: int | None, listener: str
    ) -> Cause:
        broker = await self._dial(number, node_id)
        if isinstance(broker, Cause):
            return broker
        relay = Relay(number, client, broker, talk, self._shared)
        observer, cause = self._observer, Cause.DRAIN_DEADLINE
        if observer is not None:
            at_ns = time.monotonic_ns()
            observer.opened(Opened(number, at_ns, listener, client.peer, node_id, broker.peer, tls=False), talk)
        self._relays.add(relay)
        try:
            if self._draining:
                relay.drain()
            cause = await relay.run()
        finally:
            self._relays.discard(relay)
            broker.close()
            if observer is not None:
                observer.closed(number, cause, time.monotonic_ns())
        return cause

    async def _dial(self, number: int, node_id: int | None) -> Stream | Cause:
        """The broker's side of a connection, or why there is none."""
        candidates = self._settings.upstream if node_id is None else await self._upstream_of(node_id)
        if not candidates:
            log(WARNING, "node is not known", connection=number, node=node_id)
            return Cause.UNKNOWN_NODE
        for address in candidates:
            try:
                broker = await dial(address, self._settings.dial_seconds)
            except PeerLost as error:
                log(WARNING, "upstream is down", connection=number, node=node_id, reason=error)
            else:
                self._upstream_reached = True
                return broker
        self._upstream_reached = False
        return Cause.UPSTREAM_DOWN

    async def _upstream_of(self, node_id: int) -> tuple[Address, ...]:
        """Where a node's broker is; where that is not known the cluster is asked, once."""
        if self._nodes.upstream(node_id) is None:
            await self._ask()
        known = self._nodes.upstream(node_id)
        return (known,) if known is not None else ()

    async def _ask(self) -> bool:
        """Learns the cluster's nodes from its brokers, if they tell. Those who wait meanwhile share the answer."""
        async with self._asking:
            try:
                found = await ask_for_nodes(self._settings.upstream, self._settings.dial_seconds)
                await self._nodes.ensure(found)
            except (NoAnswer, OSError) as error:
                log(WARNING, "the cluster's nodes are not known yet", reason=error)
                return False
            self._upstream_reached = True
            return True

    async def _ask_until_answered(self) -> None:
        pause = FIRST_PAUSE
        while not await self._ask():
            await trio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _drain(self) -> int:
        """Lets exchanges in flight finish. Returns the exit code."""
        self._draining = True
        for relay in set(self._relays):
            relay.drain()
        with trio.move_on_after(self._settings.drain_seconds) as deadline:
            while self._open:
                self._ended = trio.Event()
                await self._ended.wait()
        return EXIT_CUT_OFF if deadline.cancelled_caught else EXIT_CLEAN
