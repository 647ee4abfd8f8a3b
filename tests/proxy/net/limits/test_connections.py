import logging
from contextlib import ExitStack

import pytest

from proxy.net.limits.connections import ConnectionLimit, TooManyConnections

KEY = "limits.connections"


def full(limit: ConnectionLimit, host: str = "") -> bool:
    try:
        with limit.admit(host):
            return False
    except TooManyConnections:
        return True


async def test_a_limit_admits_its_number_of_connections():
    limit = ConnectionLimit(2, "main", KEY)
    with limit.admit(), limit.admit():
        assert full(limit)


async def test_a_closed_connections_place_is_free_again():
    limit = ConnectionLimit(1, "main", KEY)
    for _ in range(3):
        with limit.admit():
            assert full(limit)


async def test_a_connection_that_fails_gives_its_place_back():
    limit = ConnectionLimit(1, "main", KEY)
    with pytest.raises(ZeroDivisionError), limit.admit():
        raise ZeroDivisionError
    assert not full(limit)


async def test_without_a_limit_everybody_is_let_in():
    limit = ConnectionLimit(None, "main", KEY)
    with ExitStack() as inside:
        for _ in range(1000):
            inside.enter_context(limit.admit())


async def test_each_host_has_its_own_limit():
    limit = ConnectionLimit(1, "main", KEY)
    with limit.admit("192.0.2.1"):
        assert full(limit, "192.0.2.1")
        assert not full(limit, "192.0.2.2")


async def test_hosts_that_have_gone_take_no_memory():
    limit = ConnectionLimit(2, "main", KEY)
    for number in range(100):
        with limit.admit(f"192.0.2.{number}"), limit.admit(f"192.0.2.{number}"):
            assert full(limit, f"192.0.2.{number}")
    assert not limit._open
    assert not limit._reached


async def test_a_reached_limit_is_logged_once(caplog):
    caplog.set_level(logging.INFO)
    limit = ConnectionLimit(10, "main", KEY)
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


async def test_the_log_names_the_limits_owner(caplog):
    for of, host in (("main", ""), ("main", "192.0.2.1")):
        limit = ConnectionLimit(1, of, KEY)
        with limit.admit(host):
            full(limit, host)
    assert [(record.keys["limit"], record.keys["of"]) for record in caplog.records] == [(1, "main"), (1, "192.0.2.1")]


async def test_the_log_names_the_client_and_the_setting(caplog):
    limit = ConnectionLimit(1, "main", KEY)
    with limit.admit(), pytest.raises(TooManyConnections), limit.admit(client="192.0.2.7:50123"):
        pass
    (record,) = caplog.records
    assert (record.keys["client"], record.keys["setting"]) == ("192.0.2.7:50123", KEY)


async def test_a_limit_reached_again_and_again_is_logged_once(caplog):
    caplog.set_level(logging.INFO)
    limit = ConnectionLimit(1, "main", KEY)
    for _ in range(5):
        with limit.admit():
            assert full(limit)
    assert [record.message for record in caplog.records] == ["too many connections", "connections are let in again"]
