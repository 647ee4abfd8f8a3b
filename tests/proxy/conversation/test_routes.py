"""Tests of how frames are treated, by API and version."""

from __future__ import annotations

import pytest

from proxy.conversation import Routes
from proxy.conversation import routes as module
from proxy.wire.framing import pack_api_and_version, unpack_api_and_version
from tests.tables import each_row


@each_row(
    ("key", "version", "plain"),
    [(12, 3, True), (3, 12, True), (0, 9, False), (17, 1, False), (18, 3, False), (36, 2, False), (12_345, 0, False)],
)
def test_only_what_needs_no_second_look_is_plain(key: int, version: int, plain: bool) -> None:
    assert Routes().of(pack_api_and_version(key, version)).plain_request is plain


def test_marked_answered_and_refused_frames_are_not_plain() -> None:
    def heartbeat(key: int, version: int) -> bool:
        return key == 12

    for routes in (Routes(mark_request=heartbeat), Routes(answered_by_proxy=heartbeat), Routes(refused=heartbeat)):
        assert not routes.of(pack_api_and_version(12, 3)).plain_request
        assert routes.of(pack_api_and_version(3, 12)).plain_request
    assert not Routes(mark_response=heartbeat).of(pack_api_and_version(12, 3)).plain_response


def test_the_route_everything_marks_requests_and_responses() -> None:
    route = Routes.everything().of(pack_api_and_version(12, 3))
    assert route.mark_request
    assert route.mark_response


def test_a_peer_that_tries_all_words_fills_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_REMEMBERED", 5)
    routes = Routes()
    seen = [routes.of(pack_api_and_version(20_000, version)) for version in range(50)]
    assert len(routes.table) == 5
    assert [route.api_version for route in seen] == list(range(50))


@each_row(("key", "version"), [(0, 0), (18, 3), (-1, -1), (32_767, -32_768), (-32_768, 32_767)])
def test_keys_and_versions_are_signed(key: int, version: int) -> None:
    assert unpack_api_and_version(pack_api_and_version(key, version)) == (key, version)
    route = Routes().of(pack_api_and_version(key, version))
    assert (route.api_key, route.api_version) == (key, version)
