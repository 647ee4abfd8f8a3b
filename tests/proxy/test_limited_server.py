"""Tests of who makes room among connections; `tests/proxy/metrics/test_admin.py` asks a whole server."""

from __future__ import annotations

from proxy.limited_server import Places


def test_the_connection_that_has_waited_longest_for_a_head_makes_room() -> None:
    ended = list[str]()

    def end(connection: str) -> None:
        ended.append(connection)
        # as one does that is told that it is closed
        places.leave(connection)

    places: Places[str] = Places(3, end)
    assert all(map(places.take, "abc"))
    places.keep("a")
    places.wait("b")
    # one that has left does not come back by what it does
    places.leave("x")
    places.wait("x")
    assert places.take("d")
    assert ended == ["c"]
    places.wait("a")
    assert [places.take("e"), places.take("f")] == [True, True]
    assert ended == ["c", "b", "d"]
    for connection in "aef":
        places.keep(connection)
    assert not places.take("g")
    places.leave("e")
    assert places.take("g")
    assert ended == ["c", "b", "d"]
