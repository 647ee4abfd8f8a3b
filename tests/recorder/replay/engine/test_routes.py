"""Tests that what is looked up once for a kind of request, or made once for equal ones, is what each would get anew."""

from __future__ import annotations

import copy
from collections.abc import Hashable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire import Codec, apis, encode_request
from proxy.wire.keys import HEARTBEAT, METADATA, PRODUCE
from recorder.replay.comparison.compare import DifferenceKind, answer_verdict
from recorder.replay.engine.channels import Channel, OutgoingRequest
from recorder.replay.engine.routes import Route, Routes
from recorder.replay.mapping import ValueKind
from recorder.replay.messages import SharedValues, remembered_request, repeatable
from recorder.replay.options import Options
from recorder.replay.outcome import ReachedTarget, Result, Source
from recorder.replay.plan import Exchange, NotSent, Origin, Peer, Values
from recorder.replay.translator import Translator
from recorder.replay.versions.choosing import version_to_send
from tests.recorder.replay.comparison.test_compare import a_full_response, responses, seeds
from tests.recorder.replay.comparison.test_unchanged import NAMES, Drawn, moved
from tests.strategies import messages as any_message

requests = any_message().filter(lambda message: message[0].message.kind == "request")


class Asker:
    """Ignores what becomes of its request."""

    def answered(self, answer: object, frame: bytes | None, now: int) -> None: ...
    def left(self, given: int, began: int) -> None: ...
    def unsent(self, now: int) -> None: ...


class Renamed:
    """A target on which all names are others, and nothing else is."""

    same = frozenset[ValueKind]()

    def expected(self, what: ValueKind, scope: Hashable, recorded: Hashable) -> Hashable:
        return moved(recorded) if what in NAMES else recorded


class Listener(Translator):
    """A room that has something to say of Heartbeats before they leave, and of nothing else."""

    def __init__(self) -> None:
        self.heard: list[int] = []

    def concerns(self, api_key: int, version: int) -> bool:
        return api_key == HEARTBEAT

    def request(self, exchange: Exchange, values: Values, now: int) -> NotSent | None:
        self.heard.append(exchange.api_key)
        return None


def routes(*translators: Translator, same: frozenset[ValueKind] = frozenset()) -> Routes:
    return Routes(Options(admin=True), translators, Result(Source("capture"), ReachedTarget("target")), same)


def exchange(api_key: int | None, version: int, values: Values) -> Exchange:
    assert api_key is not None
    frame = encode_request(api_key, version, 7, "client", values)
    return Exchange(Origin("s", 1, 0), api_key, version, frame, 0, 0, Peer("host", "client"))


def route(api_key: int, version: int = 0, *translators: Translator) -> Route:
    return routes(*translators).of(Exchange(Origin("s", 1, 0), api_key, version, b"", 0, 0, Peer("host", None)))


def sent(each: Exchange, values: Values, *, remembers: bool) -> bytes:
    """The bytes of a request as they leave."""
    remembered = each.recalled() if remembers else None
    out = OutgoingRequest(each.api_key, each.version, values, "client", True, Asker(), None, remembered)
    action = Channel(1, 1, None, is_open=True).send(out, 0)
    assert action is not None
    return bytes(action.data)


def changed(values: Values, number: int) -> Values:
    """The values with another number in one of their own fields, or the same values."""
    field = next((name for name, value in values.items() if type(value) is int and 0 <= value < 100), None)
    return values if field is None else values | {field: number}


@given(message=requests, number=st.integers(0, 100))
def test_a_request_that_comes_again_leaves_in_the_bytes_of_one_that_is_written_anew(
    message: tuple[Codec, dict[str, Any]], number: int
) -> None:
    codec, values = message
    for each in (exchange(codec.message.key, codec.version, values) for _ in range(2)):
        asked = each.decoded()
        for translated in (asked, changed(asked, number), each.decoded()):
            assert sent(each, translated, remembers=True) == sent(each, translated, remembers=False)


@given(message=requests)
def test_what_a_room_changes_in_a_request_is_not_changed_in_the_next_one(
    message: tuple[Codec, dict[str, Any]],
) -> None:
    codec, values = message
    each = exchange(codec.message.key, codec.version, values)
    before = copy.deepcopy({**each.request}) if each.api_key != PRODUCE else None
    _spoil(each.decoded())
    assert before is None or each.request == before
    rest = repeatable(each.api_key, each.frame or b"")
    assert rest is None or remembered_request(each.api_key, each.version, rest).copy() == each.request


def _spoil(values: Any) -> None:
    """Takes everything out of values, at any depth."""
    for one in [*values.values()] if isinstance(values, dict) else values:
        # what an absent tagged struct has is shared by all messages, and is copied before it is changed
        if type(one) in (dict, list):
            _spoil(one)
    values.clear()


@pytest.mark.parametrize("same", [frozenset[ValueKind](), NAMES], ids=["none-the-same", "names-the-same"])
@given(response=responses, seed=seeds)
def test_equal_answers_that_name_nothing_are_the_same_whatever_the_target_assigned(
    same: frozenset[ValueKind], response: tuple[int, int], seed: int
) -> None:
    found = routes(same=same).of(Exchange(Origin("s", 1, 0), *response, b"", 0, 0, Peer("host", None)))
    values, known = a_full_response(*response, seed), Drawn(seed, same)
    kind = answer_verdict(*response, values, copy.deepcopy(values), known).kind
    assert not found.names_nothing or kind is DifferenceKind.SAME


@pytest.mark.parametrize("same", [frozenset[ValueKind](), NAMES], ids=["none-the-same", "names-the-same"])
@given(response=responses, first=seeds, second=seeds)
def test_an_answer_that_comes_again_is_compared_with_what_the_target_has_assigned_by_then(
    same: frozenset[ValueKind], response: tuple[int, int], first: int, second: int
) -> None:
    values = SharedValues(a_full_response(*response, first))
    for known in (Drawn(first, same), Drawn(second, same), Renamed()):
        anew = answer_verdict(*response, {**values}, copy.deepcopy({**values}), known)
        assert answer_verdict(*response, values, values, known) == anew


@given(
    api_key=st.sampled_from(apis.api_keys()),
    version=st.integers(0, 13),
    offered=st.lists(st.tuples(st.integers(0, 14), st.integers(0, 3), st.lists(st.none() | st.integers(0, 14)))),
)
def test_the_version_that_is_sent_is_chosen_anew_when_the_node_offers_others(
    api_key: int, version: int, offered: list[tuple[int, int, list[int | None]]]
) -> None:
    found = route(api_key, version)
    for first, more, limits in offered:
        versions = range(first, first + more)
        for newest in [*limits, None, 0, 0]:
            assert found.chosen(versions, newest) == version_to_send(api_key, version, versions, newest=newest)


def test_a_room_is_asked_only_where_it_has_something_to_say() -> None:
    listener = Listener()
    found = route(HEARTBEAT, 4, listener)
    assert [len(each) for each in (found.requests, found.sents, found.answereds, found.losts)] == [1, 0, 0, 0]
    assert not route(METADATA, 9, listener).requests
    (translate,) = found.requests
    translate(exchange(HEARTBEAT, 4, {"group_id": "g", "generation_id": 1, "member_id": "m"}), {}, 0)
    assert listener.heard == [HEARTBEAT]


def test_apis_without_counts_are_not_in_the_result() -> None:
    result = Result(Source("capture"), ReachedTarget("target"))
    found = Routes(Options(), (), result, frozenset()).of(exchange(METADATA, 9, {"topics": None}))
    assert not result.apis
    found.counts.sent += 1
    assert result.apis["Metadata"].sent == 1
