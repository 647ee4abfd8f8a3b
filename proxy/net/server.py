"""The proxy as a whole: its clusters, the admin page, and how it stops.

`Proxy` runs two nurseries: the inner one accepts connections, the outer one finishes them. SIGTERM or SIGINT ends the
inner one. Exchanges in flight may finish within `drain_seconds`; a second signal cuts them off. Then the observer
writes its queue, and `run` returns. stopping.py says how long that may take. `Parent` and `Worker` (workers/) extend
`Proxy`.
"""

from __future__ import annotations

import gc
import itertools
import resource
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from logging import DEBUG, ERROR, INFO, WARNING
from typing import Any

import trio
from prometheus_client import CollectorRegistry

from proxy.config import ClusterSettings, ProxySettings
from proxy.limited_server import Server
from proxy.log import log
from proxy.metrics.admin import Probe, admin_app, serve_admin
from proxy.metrics.collector import HeldState, ProcessNumbers, registry
from proxy.metrics.durations import Durations
from proxy.net.blocking import in_thread_or_inline
from proxy.net.change import Change, do_nothing, drop
from proxy.net.children import Companion, look_after
from proxy.net.cluster import Cluster, ProxyContext, single_process_parts
from proxy.net.heartbeat import Heartbeat, measure_loop_delay
from proxy.net.limits.connections import ConnectionLimit
from proxy.net.limits.held_bytes import HeldBytes
from proxy.net.limits.recorder_backpressure import RecorderBackpressure
from proxy.net.reloading import ReadingThread, ReadSettings, ReloadedSettings, Reloading
from proxy.net.sockets.lookups import Lookups
from proxy.net.sockets.reactor import reactor
from proxy.net.sockets.tls import ClusterCredentials
from proxy.net.stopping import (
    EXIT_CLEAN,
    EXIT_CUT_OFF,
    HURRIED_STOP_SECONDS,
    STOP_SECONDS,
    LastResort,
    Stop,
    Urgency,
    cancel_when,
    exit_now,
)
from proxy.net.systemd import Systemd
from proxy.observer import Observer
from proxy.schema.addresses import Address
from proxy.schema.errors import BadSetting
from proxy.schema.faults import Fault, Setting
from proxy.tls.contexts import is_bad_server_name

# writing and unlocking state files takes milliseconds unless the disk hangs
RELEASE_SECONDS = 1.0
# the shortest drain, in seconds: connections without an exchange in flight end in less
MIN_DRAIN = 0.2


# called with cluster name -> address of the bootstrap listener, and the admin page's address (None: no page)
Ready = Callable[[Mapping[str, Address], Address | None], None]


def ignore_ready(listening: Mapping[str, Address], metrics: Address | None) -> None:
    """The default of `ready`."""


def run(proxy: Proxy) -> int:
    """Runs a proxy, or a parent of workers, until SIGTERM or SIGINT; a worker until it is told to stop.

    Returns:
        0; 1 if exchanges in flight were cut off, a recording could not be written in time, or a worker was killed.

    Raises:
        BadSetting: an address can't be listened on, or a file that a setting names can't be used.
    """
    _allow_many_connections()
    _freeze_loaded_objects()
    sys.unraisablehook = _log_unraisable
    proxy.last_resort = LastResort()
    try:
        code = trio.run(proxy.run)
        if proxy.recorder_hangs:
            exit_now(code)
        return code
    except BaseExceptionGroup as group:
        # nurseries wrap their errors in groups
        wrong: BadSetting | BaseExceptionGroup[BadSetting] | None = group.subgroup(BadSetting)
        if wrong is None:
            raise
    finally:
        proxy.last_resort.forget()
    while isinstance(wrong, BaseExceptionGroup):
        wrong = wrong.exceptions[0]
    raise wrong


def _allow_many_connections() -> None:
    """Raises the limit on open files as far as allowed: a connection takes two, and the usual soft limit is 1024."""
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))


def _freeze_loaded_objects() -> None:
    """Keeps the garbage collector from loaded modules: traversing them would stop everything for 20 ms."""
    gc.collect()
    gc.freeze()


def _log_unraisable(unraisable: sys.UnraisableHookArgs) -> None:
    """Logs a client's wrong TLS server name, for which Python itself would print a stack trace."""
    if is_bad_server_name(unraisable):
        log(DEBUG, "client asks for a server name that is not ASCII")
    else:
        sys.__unraisablehook__(unraisable)


class Proxy:
    """A proxy from start to stop, which `run` runs once.

    Args:
        observer: the recorder; closed at the end. None: nothing is recorded.
        child: the command of the observer's own process (the compactor), which is kept running.
        ready: called once, when all listeners are open.
        reload: reads the settings again; called in a thread after a SIGHUP. None: SIGHUP does nothing.
        released: called when all listeners are closed and the state files written; in a thread if one can be started.
        companions: further processes that are kept running.

    settings: those in effect; a reload replaces them.
    last_resort: ends the process if the proxy does not end in time; None until `run` sets it.
    recorder_hangs: True if the recorder was not closed in time, so its thread still runs.
    """

    def __init__(
        self,
        settings: ProxySettings,
        observer: Observer | None = None,
        child: Sequence[str] | None = None,
        ready: Ready = ignore_ready,
        reload: ReadSettings | None = None,
        released: Callable[[], None] = do_nothing,
        companions: Sequence[Companion] = (),
    ) -> None:
        self.settings = settings
        self._observer = observer
        self._child = child
        self._companions = companions
        self._ready = ready
        self._reload = reload
        self._released = released
        # the recorder's settings of the last reload, for an undo; a parent has them from the start, for its workers
        self._recording: Any = None
        self._stop = Stop()
        self.last_resort: LastResort | None = None
        self.recorder_hangs = False
        self._systemd = Systemd()
        self._reading_thread = ReadingThread()
        self._reloading = Reloading(self._prepare, self._systemd, self._stop.begun)
        # the number of the first connection
        self._first_connection = 1
        # see `ProxyContext`
        self._discovery_seed = secrets.randbits(31)
        self._loop_delay = Durations()
        self._held = HeldBytes(settings.held_in_all, settings.stalled_seconds)
        self.clusters: tuple[Cluster, ...] = ()

    async def run(self) -> int:
        """Serves until told to stop, then drains. Returns the exit code."""
        trio.socket.set_custom_hostname_resolver(Lookups())
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async with trio.open_nursery() as background:
                background.start_soon(self._handle_signals, signals)
                background.start_soon(self._systemd.keep_alive)
                background.start_soon(measure_loop_delay, self._loop_delay)
                try:
                    code = await self._serve_until_drained()
                finally:
                    if self._observer is not None:
                        await self._end_recording(self._observer)
                background.cancel_scope.cancel()
        is_lost = self.recorder_hangs or (self._observer is not None and self._observer.losses)
        code = EXIT_CUT_OFF if is_lost else code
        log(INFO, "stopped", exit_code=code)
        return code

    async def _handle_signals(self, signals: AsyncIterator[int]) -> None:
        """Handles signals until cancelled: SIGHUP requests a reload, SIGTERM and SIGINT ask to stop."""
        async for number in signals:
            if number == signal.SIGHUP:
                self._reloading.request()
                continue
            again = self._stop.begun.is_set()
            log(INFO, "stopping at once" if again else "stopping", signal=signal.Signals(number).name)
            self._ask_to_stop()

    def _ask_to_stop(self, urgency: Urgency | None = None) -> None:
        """See `Stop.ask`. Tells systemd and the last resort how long the end takes at most."""
        self._stop.ask(urgency)
        hurried = self._stop.hurried.is_set()
        seconds = HURRIED_STOP_SECONDS if hurried else max(self.settings.drain_seconds, MIN_DRAIN) + STOP_SECONDS
        self._systemd.stopping(seconds)
        if self.last_resort is not None:
            self.last_resort.end_within(seconds)

    async def _end_recording(self, observer: Observer) -> None:
        self.recorder_hangs = not await self._stop.close_recorder(observer.close)
        if self.recorder_hangs:
            log(ERROR, "the recorder does not end: what it has not written is lost", bytes=observer.unwritten)
        if observer.losses:
            losses: dict[str, Any] = {**observer.losses}
            log(WARNING, "traffic was not recorded", **losses)

    async def _prepare(self) -> list[Change]:
        """Reads the settings again. Returns the changes that put them into effect. Raises BadSetting."""
        return await self._changes_to(*await self._reading_thread.call(self._read))

    def _read(self) -> tuple[ReloadedSettings, list[ClusterCredentials | None]]:
        """Reads the settings again, and the certificates that they name. Blocks. Raises BadSetting."""
        assert self._reload is not None
        new = self._reload()
        return new, self._read_certificates(new.settings)

    def _read_certificates(self, settings: ProxySettings) -> list[ClusterCredentials | None]:
        """Returns each cluster's new certificates; None: their settings have not changed. Blocks. Raises BadSetting."""
        certificates: list[ClusterCredentials | None] = []
        wrong: list[str] = []
        for cluster, new in zip(self.clusters, settings.clusters, strict=True):
            try:
                certificates.append(cluster.read_certificates(new))
            except BadSetting as error:
                wrong += error.lines
        if wrong:
            raise BadSetting(*wrong)
        return certificates

    async def _changes_to(
        self, new: ReloadedSettings, certificates: Sequence[ClusterCredentials | None]
    ) -> list[Change]:
        changes: list[Change] = []
        try:
            for cluster, settings, tls in zip(self.clusters, new.settings.clusters, certificates, strict=True):
                changes += await cluster.changes_to(settings, tls)
            if self._observer is not None:
                changes.append(Change(*self._observer.selection_change(new.recording)))
        except BaseException:
            drop(changes)
            raise
        apply = partial(self._put_into_effect, new.settings, new.recording)
        undo = partial(self._put_into_effect, *self._in_effect)
        return [*changes, Change(apply, undo), new.change]

    @property
    def _in_effect(self) -> tuple[ProxySettings, Any]:
        return self.settings, self._recording

    def _put_into_effect(self, settings: ProxySettings, recording: Any) -> None:
        self.settings, self._recording = settings, recording

    async def _serve_until_drained(self) -> int:
        reactor().polling.busy = self.settings.busy_polling
        async with trio.open_nursery() as connections:
            admin = None
            try:
                async with trio.open_nursery() as accepting:
                    self.clusters = self._make_clusters(accepting, connections)
                    admin = self._serve_admin()
                    await self._accept_until_stopped(admin, connections)
                    accepting.cancel_scope.cancel()
                connections.start_soon(self._release_state_files)
                code = await self._drain()
            finally:
                if admin is not None:
                    admin.close()
            connections.cancel_scope.cancel()
        return code

    async def _release_state_files(self) -> None:
        """Writes and unlocks the state files, for the next proxy. Does not wait for a disk that hangs."""
        with trio.move_on_after(RELEASE_SECONDS, shield=True):
            async with trio.open_nursery() as writing:
                for cluster in self.clusters:
                    writing.start_soon(cluster.nodes.close_state)
            await in_thread_or_inline(self._released)

    def _make_clusters(self, accepting: trio.Nursery, connections: trio.Nursery) -> tuple[Cluster, ...]:
        context = ProxyContext(
            connection_numbers=itertools.count(self._first_connection),
            held=self._held,
            connection_limit=ConnectionLimit(self.settings.connection_limit, "all clusters", "connections"),
            observer=self._observer,
            backpressure=RecorderBackpressure(self._observer) if self._observer is not None else None,
            stopping=self._stop.begun,
            accepting=accepting,
            connections=connections,
            seed=self._discovery_seed,
        )
        clusters = self.settings.clusters
        return tuple(
            self._make_cluster(
                one, context, tuple(other.node_map.usual_ports for other in clusters if other is not one)
            )
            for one in clusters
        )

    def _make_cluster(self, settings: ClusterSettings, context: ProxyContext, reserved: tuple[range, ...]) -> Cluster:
        return Cluster(settings, context, single_process_parts(settings, context, reserved))

    async def _accept_until_stopped(self, admin: Server | None, connections: trio.Nursery) -> None:
        listening = {cluster.name: await cluster.listen() for cluster in self.clusters}
        await self._start_children(connections)
        for companion in self._companions:
            # in the outer nursery, as the observer's child
            connections.start_soon(partial(look_after, companion.command, companion.ended, on_hang=companion.hung))
        self._ready(listening, Address(admin.host, admin.port) if admin else None)
        self._systemd.ready()
        if self._reload is not None:
            connections.start_soon(self._reloading.run)
        await self._stop.begun.wait()

    async def _start_children(self, connections: trio.Nursery) -> None:
        """Starts the observer's child process, if there is one; a parent starts its workers instead."""
        if self._child is not None and self._observer is not None:
            # in the outer nursery: the child is kept running until all connections have ended
            connections.start_soon(look_after, self._child, self._observer.child_ended, self._observer.child_input)

    def _serve_admin(self) -> Server | None:
        address = self.settings.metrics
        if address is None:
            return None
        more = [companion.metrics for companion in self._companions if companion.metrics is not None]
        doors = {name: door for companion in self._companions for name, door in companion.doors.items()}
        page = admin_app(self._registry(), self._is_ready, self._liveness_probe(), more, doors)
        try:
            return serve_admin(page, "" if address.host == "*" else address.host, address.port)
        except OSError as error:
            wrong = Setting("metrics", address, of_cluster=False), f" can't be had ({error.strerror})"
            example = Setting("metrics", "127.0.0.1:9464", of_cluster=False)
            raise BadSetting(Fault(wrong, ("a free port of this machine, for example ", example))) from error

    def _liveness_probe(self) -> Probe:
        """The probe of /livez, for the event loop in which this is called."""
        return Heartbeat().probe

    def _registry(self) -> CollectorRegistry:
        counters = None if self._observer is None else lambda: {**self._observed(), **self._companion_counters()}
        numbers = [one.numbers(one.traffic, one.state) for one in self.clusters]
        return registry(numbers, counters, self._process_numbers(self._held_state, self._loop_delay))

    def _process_numbers(self, held: Callable[[], HeldState], loop_delay: Durations) -> ProcessNumbers:
        return ProcessNumbers(lambda: not self._reasons_against(), self.settings.connection_limit, held, loop_delay)

    def _held_state(self) -> HeldState:
        """What this process holds now. Called in any thread."""
        return HeldState(self._held.held_bytes, self._held.waiting)

    def _observed(self) -> Mapping[str, float]:
        return {} if self._observer is None else self._observer.counters()

    def _companion_counters(self) -> Mapping[str, float]:
        return {name: number for companion in self._companions for name, number in companion.counters().items()}

    def _is_ready(self) -> tuple[bool, str]:
        """The probe of /readyz; called in the admin page's threads."""
        reasons = self._reasons_against()
        # clients are served all the same
        ready = "ready; the capture is not shipped" if self._companion_counters().get("ship_failing") else "ready"
        return not reasons, "; ".join(reasons) or ready

    def _reasons_against(self) -> list[str]:
        """Why the proxy can't serve clients; []: it can. Called in any thread."""
        reasons = []
        if self._stop.begun.is_set():
            reasons.append("stopping")
        for cluster in self.clusters:
            of = f" of {cluster.name}" if len(self.clusters) > 1 else ""
            if cluster.nodes.failing:
                reasons.append(f"answers{of} that name nodes are refused ({cluster.nodes.failing})")
            if not cluster.upstreams.reached:
                servers = ", ".join(map(str, cluster.upstreams.bootstrap.order))
                reasons.append(f"no upstream broker{of} could be reached ({servers})")
        if self._observed().get("failed"):
            reasons.append("the capture can't be written")
        return reasons

    async def _drain(self) -> int:
        """Lets exchanges in flight finish. Returns the exit code."""
        for cluster in self.clusters:
            cluster.drain()
        with trio.move_on_after(max(self.settings.drain_seconds, MIN_DRAIN)) as deadline:
            async with trio.open_nursery() as waiting:
                waiting.start_soon(cancel_when, self._stop.hurried, deadline)
                for cluster in self.clusters:
                    await cluster.all_ended()
                waiting.cancel_scope.cancel()
        unfinished = sum(cluster.unfinished for cluster in self.clusters)
        if unfinished:
            log(WARNING, "exchanges in flight are cut off", connections=unfinished)
        return EXIT_CUT_OFF if unfinished else EXIT_CLEAN
