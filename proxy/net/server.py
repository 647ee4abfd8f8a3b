"""The proxy as a whole: listeners, their connections, and how all of it stops.

Two nurseries: the inner one accepts, the outer one finishes what was accepted. SIGTERM ends the inner one; exchanges
in flight get `drain_seconds`, or until a second SIGTERM; then the observer writes what it has, and `run` returns.
"""

from __future__ import annotations

import itertools
import resource
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from logging import DEBUG, ERROR, INFO, WARNING

import trio

from proxy.config import BadSetting, ProxySettings
from proxy.conversation import Cause, Conversation, Routes
from proxy.conversation.routes import API_VERSIONS, SASL_HANDSHAKE
from proxy.log import log
from proxy.metrics.admin import Server, admin_app, serve_admin
from proxy.metrics.collector import registry
from proxy.metrics.traffic import Traffic
from proxy.net.children import look_after
from proxy.net.held import HeldBytes
from proxy.net.nodes import Nodes, bind
from proxy.net.observer import Observer, Opened
from proxy.net.relay import Relay, Shared
from proxy.net.rewriting import is_rewritten
from proxy.net.room import Room
from proxy.net.state import read_state
from proxy.net.streams import Stream, accepted
from proxy.net.upstreams import Upstreams
from proxy.rewrite import addresses, api_versions
from proxy.rewrite.nodes import Address
from proxy.wire import catalog
from proxy.wire.apis import Kind

# accept() fails with EMFILE and the like: wait for a connection to end
ACCEPT_PAUSE = 0.1
# a client that is told the end of its connection closes it at once; one that hangs is waited for no longer than this
LINGER_SECONDS = 5.0
# after these the client may not have taken all that was sent to it
LINGERING = frozenset(Cause) - {
    Cause.CLIENT_CLOSED,
    Cause.CLIENT_RESET,
    Cause.UNKNOWN_NODE,
    Cause.UPSTREAM_DOWN,
    Cause.DRAIN_DEADLINE,
}

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
    _allow_many_connections()
    try:
        return trio.run(Proxy(settings, observer, child, ready).run)
    except BaseExceptionGroup as group:
        # what turns out to be wrong inside nurseries comes out wrapped
        wrong = _first(group, BadSetting)
        if wrong is None:
            raise
    raise wrong


def _first(group: BaseExceptionGroup[BaseException], kind: type[BadSetting]) -> BadSetting | None:
    for error in group.exceptions:
        found = _first(error, kind) if isinstance(error, BaseExceptionGroup) else error
        if isinstance(found, kind):
            return found
    return None


def _allow_many_connections() -> None:
    """Each takes two files; the usual limit of 1024 is for programs that use select()."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def routes() -> Routes:
    """What a proxy does with which frames: see docs/proxy.md."""
    return Routes(
        # a handshake holds no secret, but says whose name stands in the tokens behind it
        mark_request=lambda key, version: key == SASL_HANDSHAKE or _holds_secret("request", key, version),
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
    """Everything that runs between start and stop, once; see `run` for the arguments."""

    def __init__(
        self,
        settings: ProxySettings,
        observer: Observer | None = None,
        child: Sequence[str] | None = None,
        ready: Callable[[Address, Address | None], None] = lambda listening, metrics: None,
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
        self._upstreams = Upstreams(settings, self._nodes)
        room = Room(observer) if observer is not None else None
        self._shared = Shared(settings, self._nodes, self._traffic, HeldBytes(settings.held_in_all), observer, room)
        self._relays: set[Relay] = set()
        self._numbers = itertools.count(1)
        self._stopping = trio.Event()
        self._hurried = trio.Event()
        # connections that have not ended, and the end of one of them
        self._open = 0
        self._ended = trio.Event()
        self._connections: trio.Nursery
        self._accepting: trio.Nursery

    async def run(self) -> int:
        """See the function of the same name."""
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async with trio.open_nursery() as attention:
                attention.start_soon(self._heed, signals)
                try:
                    code = await self._serve_until_drained()
                finally:
                    if self._observer is not None:
                        with trio.CancelScope(shield=True):
                            await trio.to_thread.run_sync(self._observer.close)
                attention.cancel_scope.cancel()
        log(INFO, "stopped", exit_code=code)
        return code

    async def _heed(self, signals: AsyncIterator[int]) -> None:
        """The first signal stops the proxy, the second one hurries it, more change nothing."""
        async for number in signals:
            log(INFO, "stopping", signal=signal.Signals(number).name)
            (self._hurried if self._stopping.is_set() else self._stopping).set()

    async def _serve_until_drained(self) -> int:
        async with trio.open_nursery() as self._connections:
            admin = self._serve_admin()
            try:
                await self._accept_until_stopped(admin)
                code = await self._drain()
            finally:
                if admin is not None:
                    admin.close()
            self._connections.cancel_scope.cancel()
        return code

    async def _accept_until_stopped(self, admin: Server | None) -> None:
        for warning in self._settings.ports.warnings:
            log(WARNING, warning)
        async with trio.open_nursery() as self._accepting:
            listening = self._listen()
            self._nodes.listen_for_known()
            self._accepting.start_soon(self._upstreams.keep_asking)
            if self._child is not None:
                # it is looked after to the last: what it does goes on after the last connection
                self._connections.start_soon(look_after, self._child)
            self._ready(listening, Address(admin.host, admin.port) if admin else None)
            await self._stopping.wait()
            self._accepting.cancel_scope.cancel()

    def _listen(self) -> Address:
        wanted = self._settings.listen
        try:
            sock = bind(wanted)
        except OSError as error:
            raise BadSetting(
                f"--listen {wanted} can't be had ({error.strerror}); right would be a free port of this machine, "
                "for example --listen 127.0.0.1:19092"
            ) from error
        listening = Address(wanted.host, sock.getsockname()[1])
        self._nodes.add_own(sock, listening, Address(self._settings.ports.advertise or wanted.host, listening.port))
        self._accepting.start_soon(self._serve, trio.SocketListener(trio.socket.from_stdlib_socket(sock)), None)
        return listening

    def _serve_admin(self) -> Server | None:
        where = self._settings.metrics
        if where is None:
            return None
        counters = self._observer.counters if self._observer is not None else None
        page = admin_app(registry(self._traffic, counters, self._nodes.listeners), self._is_ready)
        try:
            return serve_admin(page, "" if where.host == "*" else where.host, where.port)
        except OSError as error:
            raise BadSetting(
                f"--metrics {where} can't be had ({error.strerror}); right would be a free port of this machine, "
                "for example --metrics 127.0.0.1:9464"
            ) from error

    def _is_ready(self) -> tuple[bool, str]:
        reasons = []
        if self._stopping.is_set():
            reasons.append("stopping")
        if not self._upstreams.reached:
            reasons.append("no upstream broker could be reached")
        if self._observer is not None and self._observer.counters().get("failed"):
            reasons.append("the capture can't be written")
        return not reasons, "; ".join(reasons) or "ready"

    def _serve_node(self, listener: trio.SocketListener, node_id: int) -> None:
        """Accepts for a node from now on: the socket listens already, so nobody is turned away until the task runs."""
        if self._stopping.is_set():
            # an answer in flight names a new node: its listener is closed like all others
            listener.socket.close()
        else:
            self._accepting.start_soon(self._serve, listener, node_id)

    async def _serve(self, listener: trio.SocketListener, node_id: int | None) -> None:
        here = str(Address(*listener.socket.getsockname()[:2]))
        refused = 0
        async with listener:
            while True:
                try:
                    sock, peer = await listener.socket.accept()
                    client = accepted(sock, str(Address(*peer[:2])))
                except ConnectionAbortedError:
                    continue
                except OSError as error:
                    if error.errno != refused:
                        log(WARNING, "connections can't be accepted", listener=here, reason=error.strerror)
                        refused = error.errno or 0
                    await trio.sleep(ACCEPT_PAUSE)
                    continue
                refused = 0
                self._open += 1
                self._connections.start_soon(self._connection, client, node_id, here)

    async def _connection(self, client: Stream, node_id: int | None, listener: str) -> None:
        """One client, from its first byte to its last."""
        try:
            cause = await self._served(client, node_id, listener)
            if cause in LINGERING:
                await client.finish(LINGER_SECONDS)
        finally:
            client.close()
            self._open -= 1
            self._ended.set()

    async def _served(self, client: Stream, node_id: int | None, listener: str) -> Cause:
        """The work of a connection, and its account. Whatever goes wrong in it ends it alone."""
        number, talk = next(self._numbers), Conversation(self._routes, self._settings.limits)
        # what is left of it if it is cancelled
        cause = Cause.DRAIN_DEADLINE
        self._traffic.opened()
        try:
            cause = await self._connected(number, client, talk, node_id, listener)
        except* Exception:
            cause = Cause.PROXY_FAULT
            log(ERROR, "fault in a connection", trace=True, connection=number)
        finally:
            self._traffic.closed(cause, talk.in_flight)
            log(DEBUG, "connection closed", connection=number, client=client.peer, node=node_id, cause=cause)
        return cause

    async def _connected(
        self, number: int, client: Stream, talk: Conversation, node_id: int | None, listener: str
    ) -> Cause:
        broker = await self._upstreams.connect(number, node_id)
        if isinstance(broker, Cause):
            return broker
        facts = Opened(number, time.monotonic_ns(), listener, client.peer, node_id, broker.peer, tls=False)
        try:
            return await self._relayed(Relay(number, client, broker, talk, self._shared), talk, facts)
        finally:
            broker.close()

    async def _relayed(self, relay: Relay, talk: Conversation, facts: Opened) -> Cause:
        observer = self._observer
        if observer is not None:
            observer.opened(facts, talk)
        self._relays.add(relay)
        try:
            if self._stopping.is_set():
                relay.drain()
            return await relay.run()
        finally:
            self._relays.discard(relay)
            if observer is not None:
                observer.closed(facts.connection, relay.cause, time.monotonic_ns())

    async def _drain(self) -> int:
        """Lets exchanges in flight finish. Returns the exit code."""
        for relay in set(self._relays):
            relay.drain()
        with trio.move_on_after(self._settings.drain_seconds) as deadline:
            async with trio.open_nursery() as waiting:
                waiting.start_soon(self._hurry, deadline)
                while self._open:
                    self._ended = trio.Event()
                    await self._ended.wait()
                waiting.cancel_scope.cancel()
        return EXIT_CLEAN if all(relay.is_idle for relay in self._relays) else EXIT_CUT_OFF

    async def _hurry(self, deadline: trio.CancelScope) -> None:
        await self._hurried.wait()
        deadline.cancel()
