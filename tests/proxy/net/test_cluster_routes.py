"""Tests of the routes of frames."""

from __future__ import annotations

from proxy.net.cluster import routes
from proxy.rewrite import api_versions
from proxy.wire import apis
from proxy.wire.framing import pack_api_and_version
from proxy.wire.keys import HEARTBEAT, METADATA
from tests.tables import each_row


def test_answers_with_brokers_and_what_may_hold_secrets_are_marked():
    table = routes()
    assert table.of(pack_api_and_version(METADATA, 12)).mark_response
    assert table.of(pack_api_and_version(18, 3)).mark_response
    assert not table.of(pack_api_and_version(HEARTBEAT, 3)).mark_response
    assert table.of(pack_api_and_version(36, 2)).mark_request
    assert table.of(pack_api_and_version(36, 2)).mark_response
    assert table.of(pack_api_and_version(36, 99)).mark_request


def test_handshakes_are_marked_for_the_mechanism_that_they_name():
    assert all(routes().of(pack_api_and_version(17, version)).mark_request for version in (0, 1))
    assert not routes().of(pack_api_and_version(17, 1)).mark_response


def test_only_api_versions_is_answered_and_only_when_newer_than_known():
    table = routes()
    assert not table.of(pack_api_and_version(18, api_versions.newest_known())).answered_by_proxy
    assert table.of(pack_api_and_version(18, api_versions.newest_known() + 1)).answered_by_proxy
    assert not table.of(pack_api_and_version(HEARTBEAT, 99)).answered_by_proxy


@each_row("key", [0, 1, 3, 10, 60, 78, 79])
def test_versions_that_would_name_brokers_somewhere_unknown_are_refused(key):
    table, newest = routes(), apis.versions(key)[-1]
    assert not table.of(pack_api_and_version(key, newest)).refused
    assert table.of(pack_api_and_version(key, newest + 1)).refused


def test_unknown_versions_that_name_no_broker_pass():
    assert not routes().of(pack_api_and_version(HEARTBEAT, 99)).refused
    assert not routes().of(pack_api_and_version(12_345, 0)).refused
