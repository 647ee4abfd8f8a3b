"""Tests of the fuzz target's checks: over the corpus and mutations of it, and on results that are wrong."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz import checks, corpus
from fuzz.checks import GROUPS, run
from fuzz.findings import Finding
from proxy import wire
from proxy.wire.catalog import Codec
from proxy.wire.error_reader import FoundErrors, error_reader
from tests.sweeps import examples

INPUTS = corpus.inputs()
NAMED = {(one.check, one.name): one.data for one in INPUTS}
# values that break readers: ends of ranges, impossible lengths, endless varints
EDGES = [b"\xff", b"\x80", b"\x7f", b"\0", b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\x80" * 9]
EDGES += [b"\xff\xff\xff\xff\x0f"]


@st.composite
def mutations(draw: st.DrawFn) -> tuple[str, bytes]:
    """Returns a check, and a mutated input of the corpus."""
    one = draw(st.sampled_from(INPUTS))
    data = one.data
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["overwrite", "insert", "cut", "drop", "splice"])):
            case "overwrite":
                edge = draw(st.sampled_from(EDGES) | st.binary(min_size=1, max_size=1))
                data = data[:at] + edge + data[at + len(edge) :]
            case "insert":
                data = data[:at] + draw(st.sampled_from(EDGES) | st.binary(max_size=3)) + data[at:]
            case "cut":
                data = data[:at]
            case "drop":
                data = data[:at] + data[at + draw(st.integers(1, 9)) :]
            case _:
                other = draw(st.sampled_from(INPUTS)).data
                data = data[:at] + other[min(at, len(other)) :]
    return one.check, data


@pytest.mark.real
@pytest.mark.parametrize("check", GROUPS["wire"])
def test_every_input_of_the_corpus_passes(check: str) -> None:
    found = [one for one in INPUTS if one.check == check]
    assert found
    for one in found:
        run(check, one.data, measured=True)


@examples(400)
@given(mutations())
def test_mutations_pass_too(mutation: tuple[str, bytes]) -> None:
    run(*mutation)


@examples(200)
@given(st.sampled_from(GROUPS["wire"]), st.binary(max_size=60))
def test_any_bytes_pass(check: str, data: bytes) -> None:
    run(check, data)


def body_input() -> bytes:
    return NAMED["body", "response-03-Metadata-v13"]


def breaking(monkeypatch: pytest.MonkeyPatch, name: str, wrong: Callable[..., Any]) -> None:
    """Replaces that method of codecs."""
    monkeypatch.setattr(Codec, name, wrong)


def test_an_exception_that_is_not_the_wires_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(self: Codec, buf: bytes, at: int = 0, **_: Any) -> Any:
        raise IndexError

    breaking(monkeypatch, "decode", wrong)
    with pytest.raises(IndexError):
        run("body", body_input())


def test_an_error_without_its_place_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(self: Codec, buf: bytes, at: int = 0, **_: Any) -> Any:
        raise wire.Truncated("short", api=self.message.api, version=self.version)

    breaking(monkeypatch, "decode", wrong)
    with pytest.raises(Finding, match="offset"):
        run("body", body_input())


def test_values_that_do_not_come_back_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    decode = Codec.decode
    calls = []

    def wrong(self: Codec, buf: bytes, at: int = 0, **_: Any) -> Any:
        values, end = decode(self, buf, at)
        calls.append(values)
        return (values if len(calls) % 2 else {**values, next(iter(values)): "other"}), end

    breaking(monkeypatch, "decode", wrong)
    with pytest.raises(Finding, match="encoded and decoded"):
        run("body", body_input())


def test_a_projection_that_finds_something_else_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    breaking(monkeypatch, "project", lambda self, paths: lambda buf, at: {path: [] for path in paths})
    with pytest.raises(Finding, match="projection"):
        run("body", body_input())


def test_a_walk_that_stops_elsewhere_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong:
        def feed(self, chunk: bytes) -> int:
            return len(chunk)

    breaking(monkeypatch, "walk", lambda self, stop: Wrong())
    with pytest.raises(Finding, match="a walk to"):
        run("body", body_input())


def test_a_probe_that_finds_something_else_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(error_reader(3, 13), "find", lambda data, at, size: FoundErrors({3: 1}))
    with pytest.raises(Finding, match="byte by byte"):
        run("response", NAMED["response", "03-Metadata-v13"])


def test_memory_out_of_proportion_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(checks.CHECKS, "heads", lambda data: bytes(checks.ALLOWANCE + 1000 * (len(data) + 1)) and None)
    with pytest.raises(Finding, match="bytes of memory for an input of 3"):
        run("heads", b"abc", measured=True)
    run("heads", b"abc", measured=False)
