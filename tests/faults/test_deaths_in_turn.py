"""A soak: clients write and read while proxy, compactor, shipper, broker and store die, one after the other.

`workloads.steady` checks that each acknowledged record is in Kafka once, and seen by all consumers. `harness` and
`checks` of tests/clients check that clients got the brokers' bytes, and that the capture has no other frame and no gap.
This module checks that only connections that were open when their proxy was killed lack frames, and that the bucket
holds the capture.

    make test-long ARGS="tests/faults/test_deaths_in_turn.py --soak-seconds 600"
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

import pytest

from recorder.capture import frames as c
from recorder.capture.assembly import SESSION_ENDED
from tests.brokers.kafka import KafkaCluster
from tests.brokers.waiting import wait_for
from tests.clients.checks import captured_connections, is_own_question
from tests.clients.harness import Proxied, proxied
from tests.clients.workloads.steady import CLIENTS, Aiokafka, Client, Java, KafkaPython, Librdkafka, Steady, steady
from tests.faults.live import child_of
from tests.faulty_s3 import Fault, Front
from tests.recorder.capture.looks import event_rows
from tests.recorder.running import run
from tests.recorder.shipping.shipped import URL, local, remote
from tests.s3 import Store

# the capture's checks compare every connection of the soak with every other
pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(3600)]

# segments that end several times within a turn
CAPTURE = {"SHIP": URL, "SEGMENT": "256KiB", "SEGMENT_AGE": "2s"}
# Without kcat where brokers die: there its idempotent producer once ended with a fatal "out of order sequence number".
# librdkafka before 2.3.0, which kcat may have, counts on a record that was in flight when a connection ended
# (https://github.com/confluentinc/librdkafka/pull/4438). Producers beside the proxy and behind it, with the same deaths
# of brokers, have not shown it again.
LASTING = (Java, Aiokafka, KafkaPython, Librdkafka)


@pytest.fixture(scope="module")
def kafka_dying(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """A cluster whose brokers are killed."""
    with KafkaCluster(3, folder=tmp_path_factory.mktemp("kafka") / "dying") as cluster:
        yield cluster


class Stage(NamedTuple):
    """All that may die, and the clients at work."""

    cluster: KafkaCluster
    proxy: Proxied
    store: Front
    work: Steady


def proxy_dies(stage: Stage) -> None:
    stage.proxy.restart(kill=True)


def compactor_dies(stage: Stage) -> None:
    _child_dies(stage, "recorder.capture.compactor")


def shipper_dies(stage: Stage) -> None:
    _child_dies(stage, "recorder.shipping.process")


def _child_dies(stage: Stage, module: str) -> None:
    first = child_of(stage.proxy.pid, module)
    first.kill()
    child_of(stage.proxy.pid, module, first.pid)


def broker_dies(number: int) -> Callable[[Stage], None]:
    def dies(stage: Stage) -> None:
        stage.proxy.follow_brokers(number)
        stage.cluster.stop_node(number, kill=True)
        stage.work.wait_for_more()
        stage.cluster.start_node(number)
        stage.proxy.follow_brokers()

    return dies


def store_dies(stage: Stage) -> None:
    with _failing(stage.store):
        stage.work.wait_for_more()


@contextmanager
def _failing(store: Front) -> Iterator[None]:
    store.fault = lambda method, key: Fault.CUT
    yield
    store.fault = lambda method, key: None


def turns(*, brokers: bool) -> Iterator[tuple[str, Callable[[Stage], None]]]:
    """Yields the name of each death, and the death; the store's is the last of a round."""
    numbers = cycle([1, 2, 3])
    while True:
        yield "proxy", proxy_dies
        yield "compactor", compactor_dies
        yield "shipper", shipper_dies
        if brokers:
            yield "broker", broker_dies(next(numbers))
        yield "store", store_dies


@pytest.mark.parametrize(
    ("brokers", "kinds"), [(True, LASTING), (False, CLIENTS)], ids=["brokers, too", "all but brokers"]
)
def test_nothing_is_lost_or_doubled_while_everything_dies_in_turns(
    kafka_dying: KafkaCluster,
    server: Store,
    store_front: Front,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    brokers: bool,
    kinds: Sequence[type[Client]],
) -> None:
    for name, value in CAPTURE.items():
        monkeypatch.setenv(f"KAFKA_WIRETAP_CAPTURE__{name}", value)
    deaths = Counter[str]()
    with proxied(kafka_dying, tmp_path, named=False, disturbed=True) as proxy:
        with steady(kafka_dying, proxy.bootstrap, tmp_path, kinds) as work:
            stage = Stage(kafka_dying, proxy, store_front, work)
            until = time.monotonic() + request.config.getoption("soak_seconds")
            for name, dies in turns(brokers=brokers):
                dies(stage)
                deaths[name] += 1
                work.wait_for_more()
                if time.monotonic() > until and name == "store":
                    break
        last = child_of(proxy.pid, "recorder.shipping.process")
    records = sum(len(client.acknowledged) for client in work.clients)
    assert_accounted_for(proxy, deaths["proxy"])
    wait_for(lambda: not last.is_running(), "the last shipper's end")
    assert run("ship", proxy.capture, URL).exit_code == 0
    store_front.wait_until_idle()
    assert remote(server) == local(proxy.capture)
    print(f"{records} records acknowledged; {dict(deaths)} died; {len(remote(server))} files in the bucket")


def assert_accounted_for(proxy: Proxied, kills: int) -> None:
    """Asserts that a session died with each proxy, and that connections which ended before are whole."""
    causes = Counter(event["cause"] for event in event_rows(proxy.capture, c.EVENT_SESSION))
    assert causes == {"started": kills + 1, "died": kills, "ended": 1}
    rows = captured_connections(proxy.capture)
    ends = {(event["session"], event["connection"]): event for event in event_rows(proxy.capture, c.EVENT_CLOSED)}
    assert rows.keys() <= ends.keys()
    passed = [talk for talk in proxy.conversations()[1] if talk.requests and not is_own_question(talk)]
    sent = [[request.frame for request in talk.requests] for talk in passed]
    cut = 0
    for place, end in ends.items():
        # a frame that was on its way when its proxy was killed is one of them
        assert end["frames"] == len(rows.get(place, [])), end
        whole = [row for row in rows.get(place, []) if not (row["note"] or "").startswith(c.CUT)]
        if end["cause"] == SESSION_ENDED:
            cut += 1
            continue
        # a broker that was killed has not got all of them
        asked = [row["frame"] for row in whole if row["made_by"] == c.BY_CLIENT]
        assert not asked or any(asked[: len(frames)] == frames for frames in sent), end
    frames = sum(len(talk.requests) + len(talk.responses) for talk in passed)
    kept = sum(row["made_by"] != c.BY_PROXY for found in rows.values() for row in found)
    print(f"{frames} frames passed on {len(passed)} connections to brokers, {kept} are in the capture")
    print(f"{cut} connections were open when their proxy was killed")
