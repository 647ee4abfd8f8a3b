"""Tests of the fuzz target of whole connections: the corpus, mutations, and checks that find planted faults."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from fuzz import conversations, plays, scripts
from fuzz.checks import run
from fuzz.conversations import conversation, packed, unpacked
from fuzz.findings import Finding
from fuzz.plays import Options
from proxy.conversation import Cause, Conversation, Direction, Step
from proxy.net.connection import rewriting
from proxy.net.connection.rewriting import HeldRewriter, MayWait
from recorder.capture import connection_recorder, redaction
from tests.sweeps import mostly_long

SCRIPTS = scripts.scripts()
CHUNKS = [chunk for _, script in SCRIPTS.values() for chunk in script]
# so many parts, each of so many scripts
PARTS, EACH = 8, 250


@pytest.mark.real
@pytest.mark.parametrize("part", range(PARTS))
def test_the_corpus_passes(part: int) -> None:
    # measuring takes ten times as long
    for one in [*scripts.inputs()][part::PARTS]:
        run("conversation", one.data, measured=False)


@pytest.mark.real
@pytest.mark.parametrize("part", mostly_long(range(PARTS), usual=2))
def test_mutations_pass_too(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "MAX_PIECES", 100)
    rng, names = random.Random(part), list(SCRIPTS)
    for _ in range(EACH):
        options, script = SCRIPTS[rng.choice(names)]
        drained = rng.choice((None, None, None, 1, 3))
        options = Options(rng.random() < 0.5, rng.random() < 0.2, rng.choice((0, 0, 0, 1, 2, 3)), drained)
        options = options._replace(short_turns=rng.random() < 0.3)
        conversation(packed(options, scripts.mutated(rng, script, CHUNKS)))


def test_scripts_are_what_was_packed() -> None:
    for options, script in SCRIPTS.values():
        assert unpacked(packed(options, script)) == (options, script)


def test_memory_is_bounded() -> None:
    """A length alone must not make the proxy allocate memory."""
    huge = b"\7\xff\xff\xff"
    for options, script in (SCRIPTS["pair-03-Metadata-v13"], SCRIPTS["pair-01-Fetch-v18"]):
        (_, asked), (_, answered) = script
        run("conversation", packed(options, [(Direction.REQUEST, asked), (Direction.RESPONSE, huge + answered[4:])]))
        measured = packed(options, [(Direction.REQUEST, huge + asked[4:] + bytes(5000))])
        run("conversation", measured, measured=True)


def corpus_has(name: str, what: str) -> None:
    """Asserts that the check finds the fault in this script."""
    options, script = SCRIPTS[name]
    with pytest.raises(Finding, match=what):
        conversation(packed(options._replace(drained_after=None), script))


def test_a_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(self: Conversation, chunk: bytes, at_ns: int) -> Step:
        raise IndexError

    monkeypatch.setattr(Conversation, "responses", wrong)
    with pytest.raises(BaseExceptionGroup):
        conversation(packed(*SCRIPTS["mixed-1"]))


def changed(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, change: Callable[[Any], Any]) -> None:
    """Replaces the result of this function."""
    before = getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *given, **more: change(before(*given, **more)))


def test_a_request_that_is_changed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    changed(monkeypatch, Step, "outgoing", lambda pieces: [bytes(pieces[0])[:-1] + b"?", *pieces[1:]])
    corpus_has("mixed-2", "leaves as it came")


def test_an_address_that_is_passed_on_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "is_rewritten", lambda key, version: False)
    corpus_has("pair-03-Metadata-v13", "a client is told 'b1.up.invalid'")


def test_a_rewrite_that_changes_more_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    rewrite = HeldRewriter._rewrite

    def wrong(self: HeldRewriter, frame: memoryview) -> MayWait[bytes | None]:
        made = yield from rewrite(self, frame)
        return made and made[:8] + b"\1" + made[9:]

    monkeypatch.setattr(HeldRewriter, "_rewrite", wrong)
    corpus_has("pair-03-Metadata-v13", "is no edit of")


def test_a_secret_in_the_log_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "rule", lambda mark: None)
    corpus_has("login-2", "a secret of SaslAuthenticate is logged")


def test_bytes_that_are_not_logged_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    changed(monkeypatch, plays, "Pages", lambda pages: pages)
    monkeypatch.setattr(connection_recorder.ConnectionRecorder, "finish", lambda self: [])
    options, script = SCRIPTS["edge-7"]
    with pytest.raises(Finding, match="not in the log"):
        conversation(packed(options, [(Direction.REQUEST, b"\0\0\0\x0c\0\3"), *script]))


def test_chunks_that_make_a_difference_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = Conversation.requests

    def wrong(self: Conversation, chunk: bytes, at_ns: int) -> Step:
        step = feed(self, chunk, at_ns)
        step.opaque_reasons += [Cause.IDLE] * (len(chunk) == 1)  # type: ignore[list-item]
        return step

    monkeypatch.setattr(Conversation, "requests", wrong)
    options, script = SCRIPTS["pair-12-Heartbeat-v4"]
    with pytest.raises((Finding, BaseExceptionGroup)):
        conversation(packed(options._replace(recut=conversations.SINGLES, drained_after=None), script))
