import logging
from contextlib import ExitStack

import pytest

from proxy.net.limits.connections import ConnectionLimit, TooManyConnections


def full(limit: ConnectionLimit, host: str = "") -> bool:
    try:
        with limit.admit(host):
            return False
    except TooManyConnections:
        return True


async def test_so_many_are_let_in_and_no_more():
    limit = ConnectionLimit(2, "main")
    with limit.admit(), limit.admit():
        assert full(limit)


async def test_the_place_of_who_leaves_is_free_again():
    limit = ConnectionLimit(1, "main")
    for _ in range(3):
        with limit.admit():
            assert full(limit)


async def test_who_fails_inside_leaves_too():
    limit = ConnectionLimit(1, "main")
    with pytest.raises(ZeroDivisionError), limit.admit():
        raise ZeroDivisionError
    assert not full(limit)


async def test_without_a_limit_everybody_is_let_in():
    limit = ConnectionLimit(None, "main")
    with ExitStack() as inside:
        for _ in range(1000):
            inside.enter_context(limit.admit())


async def test_hosts_have_places_of_their_own():
    limit = ConnectionLimit(1, "main")
    with limit.admit("192.0.2.1"):
        assert full(limit, "192.0.2.1")
        assert not full(limit, "192.0.2.2")


async def test_hosts_that_have_gone_take_no_memory():
    limit = ConnectionLimit(2, "main")
    for number in range(100):
        with limit.admit(f"192.0.2.{number}"), limit.admit(f"192.0.2.{number}"):
            assert full(limit, f"192.0.2.{number}")
    assert not limit._open
    assert not limit._reached


async def test_it_is_said_once_however_many_knock(caplog):
    caplog.set_level(logging.INFO)
    limit = ConnectionLimit(10, "main")
    with ExitStack() as inside:
        places = [inside.enter_context(ExitStack()) for _ in range(10)]
        for admit in places:
            admit.enter_context(limit.admit())
        # one connection ends, another begins: nothing to log
        for _ in range(5):
            assert full(limit)
            places[0].close()
            places[0].enter_context(limit.admit())
        assert [record.message for record in caplog.records] == ["too many connections"]
        for admit in places[:2]:
            admit.close()
        assert [record.message for record in caplog.records][1:] == ["connections are let in again"]
    assert len(caplog.records) == 2


async def test_what_is_said_names_whose_limit_it_is(caplog):
    for of, host in (("main", ""), ("main", "192.0.2.1")):
        limit = ConnectionLimit(1, of)
        with limit.admit(host):
            full(limit, host)
    assert [record.keys for record in caplog.records] == [{"limit": 1, "of": "main"}, {"limit": 1, "of": "192.0.2.1"}]


async def test_going_in_and_out_all_day_is_said_once(caplog):
    caplog.set_level(logging.INFO)
    limit = ConnectionLimit(1, "main")
    for _ in range(5):
        with limit.admit():
            assert full(limit)
    assert [record.message for record in caplog.records] == ["too many connections", "connections are let in again"]
