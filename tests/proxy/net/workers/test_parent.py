from __future__ import annotations

import http.client
import os
import signal
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families
from trio.testing import wait_all_tasks_blocked

from proxy.config import ProxySettings
from proxy.conversation import Cause
from proxy.net.brokers.node_ports import bind
from proxy.net.reloading import ReloadedSettings
from proxy.net.stopping import Stop, Urgency
from proxy.net.workers import parent as parents
from proxy.net.workers.job import Job, load_settings
from proxy.net.workers.parent import Parent
from proxy.schema.addresses import Address
from proxy.schema.errors import BadSetting
from tests.logs import keys_of
from tests.proxy.net.cluster import Broker
from tests.proxy.net.peers import HOST, NOWHERE, PATIENCE
from tests.proxy.net.relays import ANY, listens, settings, whole
from tests.proxy.net.threads import no_threads
from tests.proxy.net.workers.scripted import KILLED, Worker

MOVED = [7, "moved.invalid", 9092]
NEW = [7, "new.invalid", 9092]
STAYS = [8, "stays.invalid", 9092]


class Scripted(Parent):
    """A parent with scripted workers."""

    def __init__(self, chosen: ProxySettings, nursery: trio.Nursery, ready: Any, reload: Any) -> None:
        super().__init__(chosen, [], None, ready, reload)
        self.workers: list[Worker] = []
        self._nursery = nursery
        self.joins = True

    async def _start(self, number: int, slot: int, sock: socket.socket) -> Worker:
        worker = Worker(number, slot, sock)
        self.workers.append(worker)
        self._nursery.start_soon(worker.run)
        if self.joins:
            worker.join()
        return worker


class Running:
    def __init__(
        self, nursery: trio.Nursery, broker: Broker, chosen: Mapping[str, Any] = MappingProxyType({}), **others: Any
    ) -> None:
        begun = whole(settings(broker.address, **chosen), metrics=ANY, workers=2, **others)
        self.changed: ProxySettings | None = None
        self.listening: Mapping[str, Address] = {}
        self.metrics: Address | None = None
        self.ready = trio.Event()
        self.ended = trio.Event()
        self.code: int | None = None
        self.parent = Scripted(begun, nursery, self._say_ready, self._reload)

    @property
    def workers(self) -> list[Worker]:
        return self.parent.workers

    async def run(self) -> None:
        self.code = await self.parent.run()
        self.ended.set()

    def _reload(self) -> ReloadedSettings:
        assert self.changed is not None
        return ReloadedSettings(self.changed, "what is kept")

    def _say_ready(self, listening: Mapping[str, Address], metrics: Address | None) -> None:
        self.listening, self.metrics = listening, metrics
        self.ready.set()

    async def ends_with(self, code: int) -> None:
        signal.raise_signal(signal.SIGTERM)
        with trio.fail_after(PATIENCE):
            await self.ended.wait()
        assert self.code == code

    async def page(self, path: str) -> tuple[int, str]:
        return await trio.to_thread.run_sync(self._page, path)

    def _page(self, path: str) -> tuple[int, str]:
        assert self.metrics is not None
        connection = http.client.HTTPConnection(self.metrics.host, self.metrics.port, timeout=PATIENCE)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    async def scrape(self) -> dict[str, float]:
        _, text = await self.page("/metrics")
        found = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        return {sample.name.removeprefix("kafka_wiretap_"): sample.value for sample in found}


def ensure(*nodes: list[Any]) -> dict[str, Any]:
    return {"do": "ensure", "cluster": "main", "nodes": list(nodes), "cluster_id": None}


@pytest.fixture
async def running(nursery: trio.Nursery, broker: Broker) -> AsyncIterator[Running]:
    running = Running(nursery, broker)
    nursery.start_soon(running.run)
    with trio.fail_after(PATIENCE):
        await running.ready.wait()
        # the broker's own node
        while not all(node_of(worker, 1) for worker in running.workers):
            await wait_all_tasks_blocked(0.005)
    yield running
    nursery.cancel_scope.cancel()


def node_of(worker: Worker, node_id: int) -> Any:
    """Returns the newest data about a node that a worker got: broker, listener; None if it got none."""
    return (worker.was_told("nodes") or [{"table": {}}])[-1]["table"].get(str(node_id))


def accepts_for(worker: Worker) -> list[int | None]:
    return [said["node"] for said in worker.was_told("accept")]


async def test_every_worker_gets_every_listener(running):
    for worker in running.workers:
        assert accepts_for(worker) == [None, 1]
        where = [sock.getsockname() for sock in worker.sockets]
        assert where[0] == (running.listening["main"].host, running.listening["main"].port)


async def test_workers_have_the_parents_table_of_brokers(running, broker):
    assert [node_of(worker, 1)[0] for worker in running.workers] == [str(broker.address)] * 2


async def test_workers_are_told_the_clusters_id_and_the_brokers_of_all_nodes(running, broker):
    broker.cluster_id = "an-id"
    await running.workers[0].ask(ensure(NEW) | {"cluster_id": "an-id"}).wait()
    await wait_all_tasks_blocked(0.02)
    for worker in running.workers:
        told = worker.was_told("nodes")[-1]
        assert told["cluster_id"] == "an-id"
        assert {str(broker.address), "new.invalid:9092"} == {*told["brokers"]}


async def test_a_new_node_is_accepted_for_by_all_workers_before_it_is_advertised(running):
    asker, slow = running.workers
    slow.does_what_it_is_told = False
    answer = asker.ask(ensure(NEW))
    await wait_all_tasks_blocked(0.02)
    assert accepts_for(asker)[-1] == accepts_for(slow)[-1] == 7
    assert not answer.is_done
    slow.end(KILLED)
    with trio.fail_after(PATIENCE):
        said = await answer.wait()
    assert said["current"]
    assert said["advertised"] == [list(asker.sockets[-1].getsockname())]
    # the advertised port is open
    with socket.create_connection(said["advertised"][0], PATIENCE):
        pass


async def test_a_node_that_another_worker_has_requested_is_awaited(running):
    one, other = running.workers
    other.does_what_it_is_told = False
    first = one.ask(ensure(NEW))
    await wait_all_tasks_blocked(0.02)
    second = one.ask(ensure(NEW))
    await wait_all_tasks_blocked(0.02)
    assert not first.is_done
    assert not second.is_done


async def test_a_moved_node_is_announced_to_all_workers_before_the_answer(running):
    one, other = running.workers
    for node in (NEW, MOVED):
        await one.ask(ensure(node)).wait()
        assert node_of(one, 7)[0] == node_of(other, 7)[0] == f"{node[1]}:9092"
    assert accepts_for(other).count(7) == 1


async def test_an_overtaken_answer_is_shown_as_such(running):
    one, other = running.workers
    other.does_what_it_is_told = False
    first = one.ask(ensure(NEW))
    await wait_all_tasks_blocked(0.02)
    second = one.ask(ensure(MOVED))
    await wait_all_tasks_blocked(0.02)
    other.end(KILLED)
    assert not (await first.wait())["current"]
    assert (await second.wait())["current"]


async def test_a_later_worker_gets_the_whole_table(running):
    gone = running.workers[0]
    await gone.ask(ensure(NEW)).wait()
    gone.end(KILLED)
    with trio.fail_after(PATIENCE):
        while len(running.workers) == 2:
            await wait_all_tasks_blocked(0.01)
    late = running.workers[-1]
    await wait_all_tasks_blocked(0.02)
    assert accepts_for(late) == [None, 1, 7]
    assert node_of(late, 7)[0] == "new.invalid:9092"


def report(*named: int, has_list: bool = True, connected: Sequence[int] = ()) -> dict[str, Any]:
    return {"main": {"named": [*named], "has_list": has_list, "connected": [*connected]}}


async def forgotten(running: Running, *named: int, connected: Sequence[int] = (), seconds: int = 14) -> None:
    """Answers through the first worker name these nodes; returns after the time in which others are forgotten."""
    for _ in range(seconds):
        running.workers[0].nodes = report(*named, connected=connected)
        running.workers[0].say_counts()
        await trio.sleep(1)


@pytest.fixture
async def forgetful(nursery: trio.Nursery, broker: Broker, autojump_clock) -> AsyncIterator[Running]:
    """A parent that forgets nodes after 12 seconds."""
    # the proxy's own question goes unanswered from now on
    broker.is_reticent = True
    running = Running(nursery, broker, chosen={"forget_node_seconds": 12})
    nursery.start_soon(running.run)
    await running.ready.wait()
    await wait_all_tasks_blocked()
    yield running
    nursery.cancel_scope.cancel()


async def test_a_node_that_no_workers_answers_name_is_given_back_by_all_processes(forgetful, autojump_clock):
    one, other = forgetful.workers
    await one.ask(ensure(NEW)).wait()
    await one.ask(ensure(STAYS)).wait()
    where = one.sockets[-2].getsockname()
    await forgotten(forgetful, 8, connected=[7])
    assert listens(where[1])
    await forgotten(forgetful, 8)
    assert not listens(where[1])
    for worker in (one, other):
        assert worker.was_told("close")[-1]["nodes"] == [7]
        assert node_of(worker, 7) is None
        assert node_of(worker, 8) is not None
    # the port is free, though the workers have not closed their copies
    assert (await other.ask(ensure(NEW)).wait())["advertised"] == [[*where]]
    assert listens(where[1])


async def test_a_worker_that_names_a_node_in_doubt_saves_it(forgetful, autojump_clock):
    one, other = forgetful.workers
    await one.ask(ensure(NEW)).wait()
    await one.ask(ensure(STAYS)).wait()
    # only when it is asked
    other.nodes_in_doubt = report(7, has_list=False)
    await forgotten(forgetful, 8)
    assert other.was_told("doubt")
    assert not other.was_told("close")
    assert node_of(other, 7) is not None


async def test_no_node_is_given_back_while_a_worker_hangs(forgetful, autojump_clock, caplog):
    one, other = forgetful.workers
    await one.ask(ensure(NEW)).wait()
    await one.ask(ensure(STAYS)).wait()
    other.does_what_it_is_told = False
    await forgotten(forgetful, 8, seconds=26)
    assert other.was_told("doubt")
    assert not one.was_told("close")
    other.end(KILLED)
    await forgotten(forgetful, 8)
    assert one.was_told("close")


async def test_a_worker_that_joins_gets_no_listener_that_was_given_back(forgetful, autojump_clock):
    one, other = forgetful.workers
    await one.ask(ensure(NEW)).wait()
    await one.ask(ensure(STAYS)).wait()
    await forgotten(forgetful, 8)
    other.end(KILLED)
    await trio.sleep(1)
    assert accepts_for(forgetful.workers[-1]) == [None, 8]


async def test_workers_make_the_parent_discover_the_brokers(running, broker):
    before = len(broker.asked)
    assert (await running.workers[0].ask({"do": "discover", "cluster": "main"}).wait())["answered"]
    assert len(broker.asked) > before


async def test_a_doubted_broker_is_checked_by_discovery(running, broker):
    before = len(broker.asked)
    running.workers[0].tell({"do": "request_discovery", "cluster": "main"})
    with trio.fail_after(PATIENCE):
        while len(broker.asked) == before:
            await wait_all_tasks_blocked(0.01)


async def test_the_metrics_page_shows_each_living_workers_connections(running):
    one, other = running.workers
    for worker in (one, one, other):
        worker.traffic.opened()
    other.traffic.closed(Cause.CLIENT_CLOSED, [])

    async def shown() -> dict[str, float]:
        _, text = await running.page("/metrics")
        found = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        named = [sample for sample in found if sample.name == "kafka_wiretap_worker_connections"]
        assert {sample.labels["cluster"] for sample in named} == {"main"}
        return {sample.labels["worker"]: sample.value for sample in named}

    assert await shown() == {"1": 2, "2": 0}
    one.end(KILLED)
    with trio.fail_after(PATIENCE):
        while len(running.workers) == 2:
            await wait_all_tasks_blocked(0.01)
    await wait_all_tasks_blocked(0.02)
    assert await shown() == {"2": 0, "3": 0}


async def test_one_metrics_page_sums_the_counts_of_all_workers(running):
    for worker in running.workers:
        worker.traffic.opened()
        worker.recorder = {"recorded_bytes": 5.0}
    found = await running.scrape()
    assert found["connections"] == 2
    assert found["recorder_bytes_total"] == 10
    assert found["node_info"] == 1
    assert (found["workers"], found["worker_ends_total"]) == (2, 0)
    assert "process_cpu_seconds_total" in found


async def test_a_proxy_that_does_not_record_shows_no_recorder(running):
    assert not [name for name in await running.scrape() if name.startswith("recorder")]


async def test_the_parent_is_ready_while_a_worker_runs(running):
    assert await running.page("/readyz") == (200, "ready\n")
    running.parent.joins = False
    for worker in list(running.workers):
        worker.end(KILLED)
    await wait_all_tasks_blocked(0.02)
    assert await running.page("/readyz") == (503, "no worker works\n")


async def test_the_parent_is_not_ready_while_a_worker_can_not_record(running):
    running.workers[1].recorder = {"failed": 1.0}
    assert await running.page("/readyz") == (503, "the capture can't be written\n")


async def test_workers_are_told_to_stop_and_nothing_listens(running):
    await running.ends_with(0)
    assert [worker.was_told("stop") for worker in running.workers] == [[{"do": "stop", "urgency": 1}]] * 2
    bind(running.listening["main"]).close()


async def test_the_exit_code_is_that_of_a_worker_that_cut_connections(running):
    running.workers[0].code = 1
    await running.ends_with(1)


async def test_a_stopping_parent_opens_no_listener_for_new_nodes(running):
    worker = running.workers[0]
    worker.ends_when_told = False
    signal.raise_signal(signal.SIGTERM)
    await wait_all_tasks_blocked(0.02)
    await worker.ask(ensure(NEW)).wait()
    assert 7 not in accepts_for(worker)
    worker.end()
    with trio.fail_after(PATIENCE):
        await running.ended.wait()


async def test_a_worker_that_joins_while_the_proxy_stops_ends_nothing(running):
    """The worker reports before it obeys the stop, when the listeners are gone."""
    running.parent.joins = False
    await newcomer_after(running, running.workers[0])
    newcomer = running.workers[2]
    newcomer.ends_when_told = False
    signal.raise_signal(signal.SIGTERM)
    with trio.fail_after(PATIENCE):
        while not newcomer.told:
            await wait_all_tasks_blocked(0.02)
    newcomer.join()
    await wait_all_tasks_blocked(0.02)
    newcomer.end()
    with trio.fail_after(PATIENCE):
        await running.ended.wait()
    assert running.code == 0
    assert [said["do"] for said in newcomer.told] == ["stop"]


# settings that are read again


def changed(broker: Broker, *, seconds: float = 77, **others: Any) -> ProxySettings:
    return whole(settings(broker.address, **others), metrics=ANY, workers=2, drain_seconds=seconds)


def refusals(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [keys_of(record)["reason"] for record in caplog.records if "stay as they are" in record.message]


async def read_again(running: Running) -> None:
    """Returns once the settings were read, and applied or refused."""
    over = trio.Event()
    with patch.object(running.parent._systemd, "ready", over.set):
        signal.raise_signal(signal.SIGHUP)
        with trio.fail_after(PATIENCE):
            await over.wait()
    await wait_all_tasks_blocked(0.02)


async def test_changed_settings_are_sent_to_all_workers_once_each_is_prepared(running, broker):
    running.changed = changed(broker, named={9: Address(HOST, 0)})
    await read_again(running)
    for worker in running.workers:
        (asked,), (told,) = worker.was_told("prepare"), worker.was_told("settings")
        assert asked | {"do": "settings", "request": ...} == told | {"request": ...}
        job = load_settings(told["settings"])
        assert (job.settings.drain_seconds, job.recording) == (77, "what is kept")
        assert accepts_for(worker) == [None, 1, 9]
        assert node_of(worker, 9)[0] == ""
    # each reload has another number
    await read_again(running)
    first, second = running.workers[0].was_told("settings")
    assert first["number"] < second["number"]


async def test_a_reload_that_one_worker_refuses_changes_no_worker(running, broker, caplog):
    before = running.parent.settings
    with bind(Address(HOST, 0)) as free:
        at = Address(*free.getsockname())
    running.changed = changed(broker, named={9: at})
    running.workers[1].refuses = ["clusters.main.tls.certificate can't be used"]
    await read_again(running)
    assert refusals(caplog) == ["clusters.main.tls.certificate can't be used"]
    assert running.parent.settings is before
    for worker in running.workers:
        assert worker.was_told("settings") == []
        assert accepts_for(worker) == [None, 1]
        (asked,), (forgotten,) = worker.was_told("prepare"), worker.was_told("forget")
        assert asked["number"] == forgotten["number"]
    bind(at).close()
    # it succeeds the next time
    running.workers[1].refuses = []
    await read_again(running)
    assert running.parent.settings.drain_seconds == 77


async def test_a_worker_that_does_not_answer_whether_it_is_prepared_stops_the_reload(
    running, broker, caplog, monkeypatch
):
    monkeypatch.setattr(parents, "CONSENT_SECONDS", 0.05)
    running.changed = changed(broker)
    running.workers[1].does_what_it_is_told = False
    await read_again(running)
    assert refusals(caplog) == [f"worker {running.workers[1].number} does not answer"]
    assert running.parent.settings.drain_seconds != 77
    assert running.workers[0].was_told("settings") == []


async def test_a_reload_does_not_wait_for_a_worker_that_ended(running, broker):
    running.changed = changed(broker)
    gone, other = running.workers
    gone.does_what_it_is_told = False
    signal.raise_signal(signal.SIGHUP)
    with trio.fail_after(PATIENCE):
        while not gone.was_told("prepare"):
            await wait_all_tasks_blocked(0.005)
        gone.end(KILLED)
        while not other.was_told("settings"):
            await wait_all_tasks_blocked(0.005)
    assert running.parent.settings.drain_seconds == 77


async def test_a_fault_after_workers_got_new_settings_sends_them_the_old_ones(running, broker, caplog, monkeypatch):
    running.changed = changed(broker)
    tell, told = running.parent._tell_workers, []

    def faulty(*args: Any) -> None:
        tell(*args)
        told.append(args)
        if len(told) == 1:
            raise ZeroDivisionError

    monkeypatch.setattr(running.parent, "_tell_workers", faulty)
    await read_again(running)
    for worker in running.workers:
        first, second = worker.was_told("settings")
        assert first["number"] < second["number"]
        assert [load_settings(one["settings"]).settings.drain_seconds for one in (first, second)] == [77, 10]
    assert running.parent.settings.drain_seconds == 10
    assert "settings stay as they are: a fault" in caplog.text


async def test_a_worker_that_joins_after_a_reload_gets_the_new_settings(running, broker):
    running.parent.joins = False
    await newcomer_after(running, running.workers[0])
    running.changed = changed(broker)
    await read_again(running)
    running.workers[2].join()
    await wait_all_tasks_blocked(0.02)
    (said,) = running.workers[2].was_told("settings")
    assert load_settings(said["settings"]).settings.drain_seconds == 77
    assert said["number"] == running.workers[1].was_told("settings")[0]["number"]
    # the next worker starts with them
    running.parent.joins = True
    await newcomer_after(running, running.workers[1])
    await wait_all_tasks_blocked(0.02)
    assert accepts_for(running.workers[3])
    assert running.workers[3].was_told("settings") == []


async def newcomer_after(running: Running, worker: Worker) -> None:
    """Returns once another worker has started in this one's place."""
    before = len(running.workers)
    worker.end(KILLED)
    with trio.fail_after(PATIENCE):
        while len(running.workers) == before:
            await trio.sleep(0)


async def test_a_busy_listen_address_is_reported_before_any_worker_starts(nursery, broker):
    with bind(Address(HOST, 0)) as taken:
        chosen = whole(settings(broker.address, listen=Address(HOST, taken.getsockname()[1])), workers=2)
        parent = Scripted(chosen, nursery, None, None)
        with pytest.raises(BaseExceptionGroup) as caught:
            await parent.run()
        assert caught.value.subgroup(BadSetting) is not None
        assert parent.workers == []


async def test_a_worker_that_no_thread_can_start_is_an_error_of_the_machines(broker):
    parent = Parent(whole(settings(broker.address)), ["worker"])
    with no_threads(), socket.socket() as sock, pytest.raises(OSError, match="no thread can be had"):
        await parent._start(1, 0, sock)


@pytest.fixture
async def parent_of_nobody(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Parent]:
    """A parent whose workers are processes that hang before they read their jobs, which are larger than a pipe."""
    nodes = {number: 20_000 + number for number in range(5000, 15_000)}
    chosen = whole(settings(NOWHERE, remembered=nodes), workers=2, hung_seconds=3, drain_seconds=1)
    assert len(Job(1, 0, chosen).dumped()) > 65536
    parent = Parent(chosen, ["sleep", "1000"])
    started: list[trio.Process] = []
    real = trio.lowlevel.open_process

    async def noted(*command: Any, **options: Any) -> trio.Process:
        started.append(await real(*command, **options))
        return started[-1]

    kill = trio.Process.kill

    def killed(process: trio.Process) -> None:
        """Ends the process before the virtual clock jumps over the time in which the supervisor waits for its end."""
        kill(process)
        if process.returncode is None:
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

    monkeypatch.setattr(trio.lowlevel, "open_process", noted)
    monkeypatch.setattr(trio.Process, "kill", killed)
    yield parent
    for process in started:
        process.kill()


async def test_a_worker_that_hangs_before_it_has_read_its_job_is_named_killed_and_replaced(
    parent_of_nobody, nursery, autojump_clock
):
    workers = parent_of_nobody._workers
    nursery.start_soon(workers.run)
    named: set[int] = set()
    with trio.fail_after(1000):
        while workers.ends < 2:
            await trio.sleep(0.5)
            named |= {worker.number for worker in workers.hanging}
    assert named >= {1, 2}
    nursery.cancel_scope.cancel()


async def test_a_worker_that_hangs_before_it_has_read_its_job_does_not_outlive_the_proxy(
    parent_of_nobody, nursery, autojump_clock
):
    workers, stop = parent_of_nobody._workers, Stop()
    nursery.start_soon(workers.run)
    with trio.fail_after(1000):
        while len(workers.totals.living) < 2:
            await trio.sleep(0.001)
        stop.ask(Urgency.AT_ONCE)
        await workers.stop(0, stop)
    assert not workers.totals.living
