"""Tests of the demo's workload: each step succeeds directly against the mock cluster."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from recorder.demo import workload
from recorder.demo.cluster import start
from recorder.demo.steady import CLIENTS
from recorder.demo.workload import HEALTHY, STEPS_ONLY, clients_beside, steps_of


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    owner, servers = start()
    yield servers
    del owner


@pytest.mark.real
def test_records_of_every_codec_and_acks_go_there_and_back(servers: str) -> None:
    produced = "3015 records, 5 codecs, acks 0, 1, all (1005 with acks=0, which promises nothing)"
    assert workload.produce_orders(servers) == produced
    told = r"billing read (\d+) records \((\d+) with acks=0\); shipping read (\d+) records \((\d+) with acks=0\)"
    numbers = re.fullmatch(told, workload.consume_orders(servers))
    assert numbers is not None
    billing, billing_unsure, shipping, shipping_unsure = map(int, numbers.groups())
    assert billing - billing_unsure == shipping - shipping_unsure == 2010
    failed = workload.go_wrong(servers)
    assert failed.startswith("as expected: ")
    assert "Offset out of range" in failed
    assert "{" not in failed


@pytest.mark.real
def test_the_clicks_step_writes_its_records(servers: str) -> None:
    written = "600 records (200 with acks=0), codecs none and gzip, acks 0, 1, all"
    assert workload.clicks(servers).startswith(f"{written}; dashboards read ")


@pytest.mark.real
def test_healthy_steps_ask_for_nothing_that_the_mock_answers_wrongly() -> None:
    owner, servers = start()
    told = {name: step(servers) for name, step in steps_of([HEALTHY])[:3]}
    assert [*told.values()] == [
        "2010 records, 5 codecs, acks 1, all",
        "billing read 2010 records; shipping read 2010 records",
        "400 records, codecs none and gzip, acks 1, all; dashboards read 400 records",
    ]
    del owner


class Member:
    """A group member that reads everything twice, as a rejoining one may: 40 records with acks=0, then the others."""

    def __init__(self) -> None:
        offsets = list(range(2050))
        self._left = [*offsets[:500], *offsets]
        self.closed = False

    def consume(self, most: int, _: float) -> list[Any]:
        given, self._left = self._left[:most], self._left[most:]
        return [SimpleNamespace(partition=int, offset=partial(int, one), key=partial(_key, one)) for one in given]

    def close(self) -> None:
        assert self._left == []
        self.closed = True


def _key(offset: int) -> bytes:
    return b"unsure-1" if offset < 40 else b"sure-1"


def test_records_that_a_group_reads_twice_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    members: dict[str, Member] = {}
    monkeypatch.setattr(workload, "_consumer", lambda servers, group: members.setdefault(group, Member()))
    told = workload.consume_orders("")
    assert told == "; ".join(f"{group} read 2050 records (40 with acks=0)" for group in ("billing", "shipping"))
    assert {group: member.closed for group, member in members.items()} == {"billing": True, "shipping": True}


def test_a_deadline_that_passes_says_in_which_step_and_after_how_long() -> None:
    program = "from recorder.demo.workload import give_up; give_up(['produce', 'consume'], 45)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr == "out of time 45 s after the start, in the step: consume; done before: produce\n"


def test_a_client_that_never_comes_back_does_not_outlast_the_deadline() -> None:
    never = "w.STEPS = (('wait', lambda servers: threading.Event().wait()),)"
    program = f"import threading; from recorder.demo import workload as w; w.DEADLINE = 0.1; {never}; w.main()"
    ended = subprocess.run([sys.executable, "-c", program, "x"], capture_output=True, text=True, check=False)
    # on a busy machine, the earlier step may take all the time
    assert ended.stderr.startswith("out of time 0.1 s after the start, in the step: ")
    assert ended.returncode == 1


def test_records_that_must_arrive_are_known_by_their_keys() -> None:
    assert workload._sure(b"sure-1")
    assert not workload._sure(b"unsure-1")
    assert not workload._sure(None)


def test_the_demo_runs_all_clients_the_correct_ones_or_none_beside_its_steps() -> None:
    assert clients_beside([]) == [*CLIENTS]
    assert {client.name for client in clients_beside([HEALTHY])} == {"shop", "ledger"}
    assert clients_beside([STEPS_ONLY]) == []
