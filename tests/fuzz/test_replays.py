"""Tests of the fuzz target of replays to arbitrary targets: corpus, mutations, and a check for planted faults."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz import replays
from fuzz.checks import run
from fuzz.findings import Finding
from recorder.replay.engine.engine import Engine, Finishing
from recorder.replay.engine.world import World
from tests.sweeps import examples

INPUTS = [*replays.inputs()]
KINDS = 5


def test_the_corpus_passes_and_takes_little_memory() -> None:
    for one in INPUTS[::5]:
        run("replay", one.data, measured=True)


@examples(60)
@given(
    st.integers(0, 15),
    st.lists(st.integers(0, len(replays.requests()) - 1), max_size=6),
    st.lists(st.builds(lambda what, rest: bytes([what]) + rest, st.integers(0, KINDS - 1), st.binary(max_size=40))),
)
def test_any_answers_pass(flags: int, asked: list[int], pieces: list[bytes]) -> None:
    run("replay", replays.packed(flags, asked, pieces), measured=False)


@examples(50)
@given(st.binary(max_size=60))
def test_any_bytes_pass(data: bytes) -> None:
    run("replay", data, measured=False)


def mixed() -> bytes:
    return next(one.data for one in INPUTS if one.name == f"mixed-{replays.CHANGED}")


def test_an_exception_that_leaves_the_engine_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: Any, **__: Any) -> Any:
        raise KeyError

    monkeypatch.setattr(World, "answered", wrong)
    with pytest.raises(KeyError):
        run("replay", mixed(), measured=False)


def test_a_replay_that_does_not_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Finishing, "_finish", lambda self, now: None)
    with pytest.raises(Finding, match="comes to its end"):
        run("replay", mixed(), measured=False)


def test_memory_that_is_not_given_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "memory", 1)
    with pytest.raises(Finding, match="no memory"):
        run("replay", mixed(), measured=False)
