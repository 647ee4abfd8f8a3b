"""Tests of the JSON in entries: the tables of fields allow all that a tap and a conversation write."""

import json
import random
from typing import get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.json import Decoder

from proxy.conversation.conversation import Conversation
from proxy.conversation.requests import RequestSide
from proxy.conversation.responses import ResponseSide
from proxy.wire.dialects import Dialect
from recorder.capture.connection_state import ConnectionState
from recorder.capture.entry_json import (
    InvalidEntryError,
    SavedConnectionState,
    SavedConversation,
    SavedRequests,
    SavedResponses,
    decode_checked,
    decoded,
)
from recorder.capture.spool import NO_CONNECTION, Entry, EntryKind
from tests.recorder.capture import traffic
from tests.recorder.capture.logged import closing, opened
from tests.recorder.capture.traffic import as_json
from tests.sweeps import examples
from tests.tables import each_row

CONVERSATION = Decoder(SavedConversation)


@examples(30)
@given(seed=st.integers(0, 1 << 32), is_old=st.booleans(), largest=st.sampled_from([1, 7, 60, 900]))
def test_every_state_of_a_conversation_is_allowed_and_comes_back_as_it_was(seed, is_old, largest) -> None:
    rng = random.Random(seed)
    made = traffic.old_talk(rng, 1, 5) if is_old else traffic.talk(rng, 1, 5, traffic.KINDS)
    talk = Conversation(traffic.recording_routes(Dialect.KAFKA_07 if is_old else Dialect.KAFKA))
    for chunk in traffic.cut(rng, made, largest).chunks[:300]:
        (talk.responses if chunk.direction else talk.requests)(chunk.data, chunk.at_ns)
        for state in (talk.state(), talk.boundary_state()):
            if state is not None:
                assert as_json(decode_checked(CONVERSATION, json.dumps(state).encode())) == as_json(state)


@each_row(
    ("saved", "kept"),
    [(SavedRequests, RequestSide), (SavedResponses, ResponseSide), (SavedConnectionState, ConnectionState)],
)
def test_a_state_calls_its_values_as_the_program_does(saved: type, kept: type) -> None:
    names = {name.lstrip("_") for of in kept.__mro__ for name in getattr(of, "__slots__", ())}
    assert get_type_hints(saved).keys() <= names


def test_answers_of_the_proxy_and_logins_are_allowed_too() -> None:
    talk = Conversation(traffic.recording_routes())
    talk.requests(traffic.framed(b"\0\x11\0\0\0\0\0\1\xff\xff\0\5PLAIN"), 1)
    state = talk.state()
    assert state["login"]["switches"][0]
    talk = Conversation(traffic.recording_routes())
    talk.requests(traffic.framed(b"\0\x12\0\x63\0\0\0\2\xff\xff"), 2)
    talk.answer(talk.in_flight[0], traffic.framed((2).to_bytes(4, "big") + b"made"))
    for one in (state, talk.state()):
        assert as_json(decode_checked(CONVERSATION, json.dumps(one).encode())) == as_json(one)


def entry(kind: EntryKind, told: object, connection: int = 1) -> Entry:
    return Entry(kind, 0, connection, 0, 1, json.dumps(told).encode())


def test_unknown_keys_of_an_entry_are_ignored() -> None:
    told = {"reason": "queue_full", "offsets": [1, 2], "more": [{"of": "it"}]}
    assert decoded(entry(EntryKind.GAP, told)) == {"reason": "queue_full"}


def test_a_hole_of_no_connection_tells_of_several() -> None:
    told = {"reason": "queue_full", "connections": 1, "frames": 2, "bytes": 3}
    assert decoded(entry(EntryKind.GAP, told, NO_CONNECTION)) == told
    with pytest.raises(InvalidEntryError):
        decoded(entry(EntryKind.GAP, {"reason": "queue_full"}, NO_CONNECTION))


@each_row(
    ("kind", "told"),
    [
        (EntryKind.OPENED, opened(node=1 << 31)),
        (EntryKind.OPENED, opened(dialect="kafka-0.6")),
        (EntryKind.OPENED, opened(limits=[1])),
        (EntryKind.OPENED, opened(limits=[1, 1 << 31])),
        (EntryKind.OPENED, opened(client="\ud800")),
        (EntryKind.OMITTED, {"length": -1}),
        (EntryKind.OMITTED, {"length": 3 << 30}),
        (EntryKind.LOGIN, {"principal": "alice"}),
        (EntryKind.CLOSED, closing(cause=None)),
        (EntryKind.CLOSED, closing(offsets=[1, -1])),
        (
            EntryKind.INVENTORY,
            {"open": [[1, 1 << 16]], "closed": {"connections": 0, "frames": 0, "bytes": 0}, "clusters": []},
        ),
        (EntryKind.INVENTORY, {"open": []}),
        (EntryKind.NODE, {"node_id": True, "upstream": "a", "listener": "b", "cluster": "main"}),
        (EntryKind.CLUSTER, {"cluster": "main", "ids": [1], "upstreams": [], "listeners": []}),
        (EntryKind.CLUSTER, {"cluster": "main", "ids": ["x" * 1025], "upstreams": [], "listeners": []}),
        (EntryKind.CLUSTER, {"cluster": "main", "ids": [], "listeners": []}),
        (EntryKind.IMPORTED, {"file": "a.pcap", "bytes": 1, "sha256": "0", "version": "1"}),
    ],
    ids=lambda value: value.name if isinstance(value, EntryKind) else "-".join(value),
)
def test_an_entry_that_no_tap_writes_is_refused(kind: EntryKind, told: object) -> None:
    with pytest.raises(InvalidEntryError):
        decoded(entry(kind, told))


@each_row("text", [b"", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"reason": "x"} more'], ids=range(6))
def test_an_entry_without_a_json_object_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidEntryError):
        decoded(Entry(EntryKind.GAP, 0, 1, 0, 1, text))
