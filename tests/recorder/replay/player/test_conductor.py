"""Tests of a replay on real sockets: targets that are down, send nonsense, end within a frame, read slowly; TLS."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
import trustme

from proxy.wire.keys import LIST_OFFSETS
from recorder.capture.frames import DamagedFileError
from recorder.replay.choice import Choice
from recorder.replay.cluster import Cluster
from recorder.replay.engine.world import World, refused_anywhere
from recorder.replay.login.logins import EVERYBODY, Entry, Logins
from recorder.replay.names import Names
from recorder.replay.options import Options
from recorder.replay.outcome import Ending, ReachedTarget, Result, Source, Verdict
from recorder.replay.player.asking import asking
from recorder.replay.player.conductor import Conductor
from recorder.replay.player.dial import NotReached, Target
from recorder.replay.prepare import Preparation
from recorder.replay.stream import Happening
from recorder.replay.survey import survey
from tests.brokers.waiting import PATIENCE
from tests.recorder.replay.player.broker import LoopbackBroker, serving
from tests.recorder.replay.simple import LIST_VERSION, list_answer, listed
from tests.recorder.replay.simulation import Recording, Simulation

SECOND = 10**9
# a longer test hangs
COUNT = 5


def recording() -> Recording:
    found = Recording()
    for at in range(COUNT):
        exchange = found.asks(at, 1, LIST_OFFSETS, LIST_VERSION, listed())
        found.answers(at + 0.5, exchange, list_answer())
    found.closes(COUNT, 1)
    return found


def test_in_time_the_first_request_is_due_only_when_reading_has_begun() -> None:
    """Otherwise the time that opening the capture takes would delay it, and all later requests on its connection."""

    async def due() -> int:
        made, options = recording(), Options(speed=1)
        world, before = Simulation(made, lambda _: None, options).world, time.monotonic_ns()
        conductor = Conductor(world, Target(()), iter(()))
        conductor.engine.feed(made.happenings[:1], before)
        return (conductor.engine.next_wake or before) - before

    assert trio.run(due) >= SECOND // 10


async def played(
    target: Target,
    options: Options,
    stop: Callable[[Conductor], Any] | None = None,
    *,
    rows: Iterator[Happening] | None = None,
) -> Result:
    """Plays the capture from the first query to the end, as the program does. `rows`: those of the second pass."""
    every = recording().happenings
    choice, cluster = Choice(options), Cluster()
    found = survey(every, choice.plays, lambda exchange: refused_anywhere(exchange, options))
    names = Names("", found.topic_ids, cluster)
    preparation = Preparation(found, names, cluster, options, may_write=True)
    with trio.fail_after(PATIENCE):
        async with asking(target, cluster, options.wait) as asker:
            await asker.run(preparation.run())
            await asker.look_at_all()
        result = Result(Source("capture"), ReachedTarget("target"))
        world = World(options, choice.plays, found, cluster, names, preparation.findings, result)
        conductor = Conductor(world, target, iter(every) if rows is None else rows)
        async with trio.open_nursery() as nursery:
            if stop is not None:
                nursery.start_soon(stop, conductor)
            await conductor.run()
            nursery.cancel_scope.cancel()
    world.close(conductor.engine.progress, 0)
    return result


MAX = Options(speed=None, wait=5 * SECOND, drain=0)
# the number of ListOffsets for the ends of logs before the play
ASKED_BEFORE = 2


def wrong(what: Callable[[trio.abc.Stream, bytes], Any], at: int = 2) -> LoopbackBroker:
    """A broker that does this to the `at`-th recorded ListOffsets."""

    async def does(number: int, stream: trio.abc.Stream, answer: bytes) -> bool | None:
        if number != ASKED_BEFORE + at:
            return None
        await what(stream, answer)
        return False

    return LoopbackBroker(does)


async def test_a_broker_in_order_is_found_as_recorded() -> None:
    broker = LoopbackBroker()
    async with serving(broker) as target:
        result = await played(target, MAX)
    assert result.verdict is Verdict.EQUAL
    assert result.totals.answered == COUNT


async def test_a_target_that_is_down_is_not_reached_and_its_address_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = taken.getsockname()
        with pytest.raises(NotReached, match=f"127.0.0.1:{address[1]}: Connection refused"):
            await played(Target((address,)), MAX)


async def test_a_capture_that_can_not_be_read_to_its_end_ends_the_replay_in_order() -> None:
    def rows() -> Iterator[Happening]:
        yield from recording().happenings[:5]
        raise DamagedFileError("frames.parquet can't be read")

    async with serving(LoopbackBroker()) as target:
        found = await played(target, MAX, rows=rows())
    assert found.ending is Ending.DAMAGED
    assert found.exit_code == 1


async def nonsense(stream: trio.abc.Stream, answer: bytes) -> None:
    await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")


async def too_long(stream: trio.abc.Stream, answer: bytes) -> None:
    await stream.send_all(b"\xff\xff\xff\xff" + answer)


async def other_number(stream: trio.abc.Stream, answer: bytes) -> None:
    await stream.send_all(answer[:4] + b"\0\0\xff\xff" + answer[8:])


async def half(stream: trio.abc.Stream, answer: bytes) -> None:
    await stream.send_all(answer[: len(answer) // 2])


async def nothing(stream: trio.abc.Stream, answer: bytes) -> None:
    return


@pytest.mark.parametrize("what", [nonsense, too_long, other_number, half, nothing])
async def test_a_read_whose_connection_ended_in_disorder_is_sent_again(what: Callable[..., Any]) -> None:
    async with serving(wrong(what)) as target:
        result = await played(target, MAX)
    assert result.totals.answered == COUNT
    assert result.totals.retried >= 1
    assert result.verdict is Verdict.EQUAL


async def test_a_target_that_answers_byte_by_byte_is_waited_for() -> None:
    async def slowly(number: int, stream: trio.abc.Stream, answer: bytes) -> bool:
        for place in range(len(answer)):
            await stream.send_all(answer[place : place + 1])
            await trio.lowlevel.checkpoint()
        return True

    async with serving(LoopbackBroker(slowly)) as target:
        result = await played(target, MAX)
    assert result.verdict is Verdict.EQUAL


@pytest.mark.real
async def test_a_target_that_is_gone_in_the_middle_ends_with_what_was_lost() -> None:
    broker = LoopbackBroker()

    async def gone(number: int, stream: trio.abc.Stream, answer: bytes) -> bool | None:
        return None if number <= ASKED_BEFORE + 1 else False

    broker.wrong = gone
    async with serving(broker) as target:
        result = await played(target, replace(MAX, wait=SECOND))
    totals = result.totals
    assert totals.answered == 1
    assert totals.lost + totals.withheld.total() == COUNT - 1


@pytest.mark.real
async def test_a_target_that_says_nothing_ends_with_what_was_lost() -> None:
    async def silent(number: int, stream: trio.abc.Stream, answer: bytes) -> bool | None:
        return None if number <= ASKED_BEFORE else True

    async with serving(LoopbackBroker(silent)) as target:
        result = await played(target, replace(MAX, wait=SECOND))
    assert result.totals.answered == 0
    assert result.totals.lost + result.totals.withheld.total() == COUNT


@pytest.mark.parametrize("behind", [0, 1, 3])
async def test_a_replay_that_is_interrupted_ends_in_order(behind: int) -> None:
    broker = LoopbackBroker()

    async def stop(conductor: Conductor) -> None:
        while len(broker.asked) < ASKED_BEFORE + behind:
            await trio.sleep(0)
        conductor.stop(Ending.INTERRUPTED)

    async with serving(broker) as target:
        result = await played(target, replace(MAX, speed=0.01), stop)
    assert result.ending is Ending.INTERRUPTED
    assert result.exit_code == 1
    assert result.totals.sent <= behind + 1


async def test_a_target_with_tls_is_played_to(tmp_path: Path) -> None:
    authority = trustme.CA()
    server, client = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(server)
    authority.configure_trust(client)
    async with serving(LoopbackBroker(), server) as target:
        result = await played(replace(target, tls=(client, None)), MAX)
    assert result.verdict is Verdict.EQUAL


@pytest.mark.parametrize("is_secured", [False, True], ids=["plain", "TLS"])
async def test_a_login_that_counts_for_a_while_is_made_again(
    mock_clock: trio.testing.MockClock, is_secured: bool
) -> None:
    """The broker ends connections that send a request later; a read would be sent again on another one.

    That holds for the questions before the play, too.
    """

    async def slow(number: int, stream: trio.abc.Stream, answer: bytes) -> None:
        mock_clock.jump(2.1)
        if number > ASKED_BEFORE:
            # from now on time passes when everybody waits for it, too
            mock_clock.autojump_threshold = 0.01

    broker = LoopbackBroker(slow, lifetime_ms=2_000)
    authority = trustme.CA()
    server, client = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(server)
    authority.configure_trust(client)
    everybody = Logins({EVERYBODY: Entry(EVERYBODY, "PLAIN", "bob", "secret")})
    async with serving(broker, server if is_secured else None) as target:
        secured = (client, None) if is_secured else None
        result = await played(replace(target, tls=secured, logins=everybody), MAX)
    assert result.verdict is Verdict.EQUAL
    assert result.totals.retried == 0
    # the questions' connection, and the recorded one's
    assert len(broker.logins) == 3
    assert max(broker.logins) == COUNT


async def test_another_hosts_certificate_is_refused_before_a_request() -> None:
    server, client = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    trustme.CA().issue_cert("127.0.0.1").configure_cert(server)
    trustme.CA().configure_trust(client)
    broker = LoopbackBroker()
    async with serving(broker, server) as target:
        with pytest.raises(NotReached, match="certificate verify failed"):
            await played(replace(target, tls=(client, None)), MAX)
    assert not broker.asked
