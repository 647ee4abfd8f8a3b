"""Tests of the deadline of a request."""

from __future__ import annotations

import socket

import pytest

from proxy.threads import NoThread
from recorder.tracing.deadlines import POOLS, cut_after
from tests.proxy.net.threads import no_threads


def test_a_deadline_that_no_thread_can_keep_leaves_later_connections_alone() -> None:
    with no_threads(), pytest.raises(NoThread), cut_after(1):
        pass
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = POOLS["http"]("127.0.0.1").ConnectionCls(*server.getsockname())
        connection.connect()
        peer, _ = server.accept()
        with peer:
            connection.close()
            peer.settimeout(20)
            # no descriptor of another's keeps it open
            assert peer.recv(1) == b""
