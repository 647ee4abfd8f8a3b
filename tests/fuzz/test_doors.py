"""Tests of the fuzz target of bytes before a first request: corpus, mutations, and checks that find planted faults."""

import random
import sys

import pytest

from fuzz import doors
from fuzz.checks import run
from fuzz.findings import Finding
from fuzz.scripts import EDGES
from proxy.limited_server import Handler
from proxy.mapping.names import SniMap
from proxy.net.sockets import proxy_protocol
from proxy.tls import contexts
from tests.tables import each_row

INPUTS = list(doors.inputs())
ROUNDS = 40


@each_row("check", doors.CHECKS)
def test_the_corpus_passes(check: str) -> None:
    found = [one for one in INPUTS if one.check == check]
    assert found
    for one in found:
        run(check, one.data, measured=True)


def mutated(rng: random.Random, data: bytes) -> bytes:
    for _ in range(rng.randint(1, 4)):
        at, edge = rng.randrange(len(data) + 1), rng.choice((*EDGES, rng.randbytes(1), b"\r\n", b":", b" "))
        cuts = (data[:at] + edge + data[at + len(edge) :], data[:at] + edge + data[at:], data[:at])
        data = rng.choice((*cuts, data[:at] + data[at + rng.randint(1, 9) :]))
    return data


@each_row("check", doors.CHECKS)
def test_mutations_pass_too(check: str) -> None:
    rng = random.Random(check)
    for one in [one for one in INPUTS if one.check == check] * ROUNDS:
        run(check, mutated(rng, one.data))


def test_a_header_that_wants_more_than_it_may_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_protocol.HeaderParser, "feed", lambda self, piece: setattr(self, "missing", 1 << 20))
    with pytest.raises(Finding, match="bytes are awaited"):
        run("greeting", b"\7PROXY TCP4")


def test_a_name_that_leads_elsewhere_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SniMap, "requested_node", lambda self, node_id, name: 3)
    with pytest.raises(Finding, match="a name and whose it is"):
        run("name", b"b17.proxy.test")


def test_an_exception_that_python_could_not_raise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "is_bad_server_name", lambda unraisable: False)
    (no_text,) = (one.data for one in INPUTS if one.name == "no text")
    with pytest.raises(Finding, match="UnicodeDecodeError"):
        run("hello", no_text)


def test_a_line_printed_to_standard_error_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Handler, "log_message", lambda self, *given: print("a line", file=sys.stderr))
    with pytest.raises(Finding, match="a line"):
        run("page", b"GET /livez HTTP/1.1\r\n\r\n")
