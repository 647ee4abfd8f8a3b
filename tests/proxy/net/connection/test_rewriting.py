from __future__ import annotations

import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from proxy.conversation import Conversation, Exchange
from proxy.mapping.nodes import Node
from proxy.net.brokers.nodes import Nodes
from proxy.net.cluster import routes
from proxy.net.connection import rewriting
from proxy.net.connection.rewriting import (
    HeldRewriter,
    Replacement,
    Rewriting,
    TooLarge,
    WalkedRewriter,
    is_rewritten,
    make_rewriter,
)
from proxy.net.limits.held_bytes import COUNTED_ABOVE, HeldBytes, Share
from proxy.net.state.file import SavedState
from proxy.rewrite import addresses
from proxy.schema.addresses import Address
from proxy.wire import apis, catalog
from proxy.wire.errors import WireError
from proxy.wire.framing import framed, pack_api_and_version
from proxy.wire.keys import API_VERSIONS, FETCH, METADATA, PRODUCE
from tests.proxy.net.relays import Listeners, Watcher, settings
from tests.proxy.rewrite.responses import CARRYING, WALKED, labelled, read, replaced_slowly, response, values
from tests.tables import each_row

NODE = Node(7, "up-7.invalid", 9092)
LIMIT = 1024 * 1024


@pytest.fixture
def listeners() -> Listeners:
    return Listeners()


@pytest.fixture
async def nodes(listeners: Listeners) -> AsyncIterator[Nodes]:
    yield Nodes(settings(), listeners.serve, SavedState(), Watcher())
    listeners.close()


class Nobody:
    """A connection that never blocks another one."""

    progress = None

    def end_as_stalled(self) -> None:
        raise AssertionError("it moves")


def share_of(held: HeldBytes) -> Share:
    return Share(held, Nobody())


@pytest.fixture
def share() -> Share:
    return share_of(HeldBytes(4 * COUNTED_ABOVE, 30))


def exchange(key: int, version: int, frame: bytes) -> Exchange:
    made = Exchange(0, routes().of(pack_api_and_version(key, version)), 77, 0, 0, 0)
    made.response_size = len(frame) - 4
    return made


async def fed(subject: Any, piece: memoryview, *, last: bool) -> Replacement:
    """Returns a rewriter's result for a piece, after all that it waits for."""
    steps = subject.feed(piece, last=last)
    try:
        while True:
            await next(steps)()
    except StopIteration as done:
        result: Replacement = done.value
        return result


async def feed(subject: Any, pieces: list[bytes]) -> bytes:
    out = b""
    for number, piece in enumerate(pieces):
        passed = await fed(subject, memoryview(piece), last=number == len(pieces) - 1)
        out += piece[: passed.unchanged] + passed.changed
    return out


def cut(frame: bytes, size: int) -> list[bytes]:
    return [frame[at : at + size] for at in range(0, len(frame), size)]


def fetched(nodes: list[Node], records: bytes, key: int = FETCH, version: int = 16) -> bytes:
    body = {"responses": [{"partitions": [{"records": records}, {"records": b"end"}]}]}
    return framed(response(key, version, values(key, version, nodes) | body))


def is_replaced(key: int, version: int, before: bytes, after: bytes, listeners: Listeners) -> bool:
    told = {number: Address("127.0.0.1", port) for number, port in listeners.ports.items()}
    found = read(key, version, after[4:])
    expected: dict[str, Any] = replaced_slowly(read(key, version, before[4:]), told)
    return found == expected


@each_row("case", [(API_VERSIONS, 0), (API_VERSIONS, 4), *CARRYING], ids=labelled)
def test_responses_that_name_brokers_or_versions_are_rewritten(case):
    assert is_rewritten(*case)


@pytest.mark.parametrize("case", [(FETCH, 15), (0, 9), (12, 0), (9999, 3)])
def test_other_responses_are_not_rewritten(case):
    assert not is_rewritten(*case)


@pytest.mark.parametrize("size", [1, 7, 100_000])
@pytest.mark.parametrize("case", CARRYING, ids=labelled)
async def test_a_small_answer_is_held_and_leaves_whole(case: tuple[int, int], size, nodes, share, listeners):
    frame = framed(response(*case, values(*case, [NODE])))
    subject = make_rewriter(exchange(*case, frame), nodes, share, LIMIT)
    assert isinstance(subject, HeldRewriter)
    pieces = cut(frame, size)
    for piece in pieces[:-1]:
        assert await fed(subject, memoryview(piece), last=False) == (0, b"")
    passed = await fed(subject, memoryview(pieces[-1]), last=True)
    assert passed.unchanged == 0
    assert is_replaced(*case, frame, passed.changed, listeners)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 64, 1000])
@pytest.mark.parametrize("case", WALKED, ids=labelled)
async def test_a_walked_answer_is_the_same_however_it_is_cut(
    case: tuple[int, int], size, nodes, share, listeners, monkeypatch
):
    monkeypatch.setattr(rewriting, "HOLD_WALKED_BELOW", 10)
    frame = framed(response(*case, values(*case, [NODE])))
    subject = make_rewriter(exchange(*case, frame), nodes, share, LIMIT)
    assert isinstance(subject, WalkedRewriter)
    out = await feed(subject, cut(frame, size))
    assert len(out) == len(frame)
    assert is_replaced(*case, frame, out, listeners)


async def test_a_large_fetch_answer_leaves_as_it_comes(nodes, share, listeners):
    frame = fetched([NODE], random.Random(0).randbytes(300 * 1024))
    subject = make_rewriter(exchange(FETCH, 16, frame), nodes, share, LIMIT)
    for at in range(0, 300 * 1024, 4096):
        passed = await fed(subject, memoryview(frame)[at : at + 4096], last=False)
        assert passed == (4096, b"")
    rest = await feed(subject, [frame[300 * 1024 :]])
    assert len(rest) == len(frame) - 300 * 1024
    assert is_replaced(FETCH, 16, frame, frame[: 300 * 1024] + rest, listeners)


async def test_a_large_fetch_answer_without_nodes_is_unchanged(nodes, share):
    frame = fetched([], bytes(300 * 1024))
    assert await feed(make_rewriter(exchange(FETCH, 16, frame), nodes, share, LIMIT), cut(frame, 50_000)) == frame


@pytest.mark.parametrize("advertised", ["a", "x" * 200])
async def test_a_tail_has_its_length_whatever_is_advertised(advertised, listeners, share):
    nodes = Nodes(settings(advertise=advertised), listeners.serve, SavedState(), None)
    frame = fetched([NODE], bytes(300 * 1024))
    out = await feed(make_rewriter(exchange(FETCH, 16, frame), nodes, share, LIMIT), cut(frame, 65_536))
    assert len(out) == len(frame)
    assert b"up-7.invalid" not in out
    hosts = [node["host"] for node in read(FETCH, 16, out[4:])["node_endpoints"]]
    assert hosts == ([advertised] if len(advertised) == 1 else [])
    listeners.close()


@pytest.mark.parametrize(("size", "way"), [(256 * 1024, HeldRewriter), (256 * 1024 + 1, WalkedRewriter)])
async def test_up_to_256_kib_are_held(size, way, nodes, share):
    empty = len(fetched([], b""))
    frame = fetched([], bytes(size + 4 - empty - 2))
    frame = framed(frame[4:])
    made = exchange(FETCH, 16, frame)
    made.response_size = size
    assert type(make_rewriter(made, nodes, share, LIMIT)) is way


async def test_an_answer_over_the_hold_limit_is_too_large(nodes, share):
    frame = framed(response(METADATA, 12, values(METADATA, 12, [NODE])))
    with pytest.raises(TooLarge, match=f"{len(frame) - 4} bytes .* limit is 10"):
        make_rewriter(exchange(METADATA, 12, frame), nodes, share, 10)


async def test_a_tail_over_the_hold_limit_is_too_large_before_it_has_come(nodes, share):
    frame = fetched([NODE] * 100, bytes(300 * 1024))
    subject = make_rewriter(exchange(FETCH, 16, frame), nodes, share, 100)
    with pytest.raises(TooLarge):
        await fed(subject, memoryview(frame)[:-1000], last=False)


@pytest.mark.parametrize("case", CARRYING, ids=labelled)
async def test_an_answer_that_ends_amid_its_brokers_cannot_be_read(case: tuple[int, int], nodes, share):
    whole = response(*case, values(*case, [NODE]))
    frame = framed(whole[: whole.index(b"invalid")])
    with pytest.raises(WireError):
        await feed(make_rewriter(exchange(*case, frame), nodes, share, LIMIT), [frame])


@pytest.mark.parametrize("missing", [1, 5, 20, 40, 400])
async def test_a_large_answer_that_ends_too_early_cannot_be_read(missing, nodes, share):
    frame = framed(fetched([NODE], bytes(300 * 1024))[4:-missing])
    with pytest.raises(WireError):
        await feed(make_rewriter(exchange(FETCH, 16, frame), nodes, share, LIMIT), cut(frame, 65_536))


async def test_a_large_held_answer_takes_its_share_until_it_is_released(nodes):
    nodes_named = [Node(number, "up.invalid" * 20, 9092) for number in range(2000)]
    frame = framed(response(METADATA, 12, values(METADATA, 12, nodes_named)))
    size = len(frame) - 4
    held = HeldBytes(size, 30)
    share = share_of(held)
    subject = make_rewriter(exchange(METADATA, 12, frame), nodes, share, LIMIT)
    await fed(subject, memoryview(frame)[:1000], last=False)
    assert share.size == size
    share.release()
    share.release()
    assert share.size == 0


@pytest.mark.parametrize("size", [50_000, 10**6])
async def test_a_large_tail_takes_its_share_until_it_is_released(size, nodes):
    records = bytes(300 * 1024)
    frame = fetched([Node(7, "up-7.invalid" * 8, number) for number in range(3000)], records)
    tail = len(frame) - len(fetched([], records)) + 1
    held = HeldBytes(len(frame), 30)
    share = share_of(held)
    subject = make_rewriter(exchange(FETCH, 16, frame), nodes, share, LIMIT)
    for piece in cut(frame[:-1], size):
        await fed(subject, memoryview(piece), last=False)
    assert share.size == tail > COUNTED_ABOVE
    share.release()
    assert share.size == 0


async def test_api_versions_is_reduced(nodes, share):
    offers = {"api_keys": [{"api_key": METADATA, "min_version": 0, "max_version": 99}]}
    frame = framed(response(API_VERSIONS, 3, offers))
    out = await feed(make_rewriter(exchange(API_VERSIONS, 3, frame), nodes, share, LIMIT), cut(frame, 3))
    (offer,) = read(API_VERSIONS, 3, out[4:])["api_keys"]
    assert offer["max_version"] == apis.versions(METADATA)[-1]


TAGGED = [case for case in CARRYING if addresses.naming_none(*case) is not None]


@pytest.mark.parametrize("case", TAGGED, ids=labelled)
async def test_a_whole_answer_without_nodes_is_left_alone_however_many_came_and_one_with_nodes_is_not(
    case: tuple[int, int], nodes: Nodes
) -> None:
    conversation = Conversation(routes())
    subject = Rewriting(nodes, HeldBytes(4 * COUNTED_ABOVE, 30), Nobody(), settings())
    asked = {"acks": -1} if case[0] == PRODUCE else {}
    for correlation_id in range(4):
        for named in ([], [NODE]):
            conversation.requests(framed(catalog.encode_request(*case, correlation_id, "me", asked)), 1)
            answer = catalog.encode_response(*case, correlation_id, values(*case, named))
            step = conversation.responses(framed(answer), 1)
            if not subject.begin(step):
                await subject.finish()
            assert bool(step.edits) == bool(named)
            subject.release()
