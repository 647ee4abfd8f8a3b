"""Tests of the demo's steady clients: they end with their block, raise errors, and produce the planted findings."""

from __future__ import annotations

from itertools import islice
from threading import Event

import pytest

from recorder.analysis.findings.rules import RULES
from recorder.demo import steady
from recorder.demo.steady import CLIENTS, PLANTED, Client, Steady, paced


def test_three_clients_have_a_habit_that_a_rule_finds() -> None:
    assert len(PLANTED) == 3
    assert set(PLANTED) <= {rule.name for rule in RULES}
    assert {client.name for client in CLIENTS if not client.finding} == {"shop", "ledger"}


def test_all_clients_end_with_the_time_and_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady, "STEADY_S", 0.0)
    seen: list[str] = []

    def work(servers: str, stop: Event) -> None:
        assert stop.wait(60)
        seen.append(servers)

    with Steady("here:1", [Client("one", work), Client("two", work)]) as clients:
        assert clients.finished() == "one, two: 0 s of work"
    assert seen == ["here:1", "here:1"]


def test_a_failing_step_ends_the_demos_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = Event()

    def work(_: str, stop: Event) -> None:
        assert stop.wait(60)
        ended.set()

    with pytest.raises(RuntimeError), Steady("", [Client("one", work)]):
        raise RuntimeError("not delivered")
    assert ended.wait(60)


def test_a_failing_client_fails_the_demos_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady, "STEADY_S", 0.0)

    def work(_: str, __: Event) -> None:
        raise RuntimeError("3 records were not delivered")

    with Steady("", [Client("one", work)]) as clients, pytest.raises(RuntimeError, match="3 records"):
        clients.finished()


def test_a_late_item_delays_no_later_one() -> None:
    stop = Event()
    numbers = [*islice(paced(1e9, stop), 1000)]
    stop.set()
    assert numbers == [*range(1000)]
    assert [*paced(1, stop)] == []
