"""A broker that speaks TLS, a client of a proxy that does, and what a test asks of either."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from proxy.config.tls import UpstreamTls
from tests.logs import keys_of
from tests.proxy.net.cluster import Broker
from tests.proxy.net.peers import HOST, PATIENCE
from tests.proxy.net.proxies import Running
from tests.proxy.net.tls_peers import Certificates, TlsPeer, client_context


class TlsBroker(Broker):
    """A broker on a TLS port."""

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__()
        self.context = context

    async def _connection(self, stream: trio.abc.Stream) -> None:
        spoken = trio.SSLStream(stream, self.context, server_side=True, https_compatible=True)
        await super()._connection(spoken)


def shown(signed: Certificates, **others: Any) -> UpstreamTls:
    return UpstreamTls(ca=signed.ca.path, certificate=signed.proxy, anyone_may_use_it=True, **others)


async def tls_client(
    proxy: Running, signed: Certificates, node_id: int | None = None, certificate: Path | None = None
) -> TlsPeer:
    plain = await proxy.client(node_id)
    return TlsPeer(plain.stream, client_context(signed.ca, certificate), asks_for=HOST)


async def closed(proxy: Running, **causes: int) -> None:
    """Returns once so many connections have ended for these causes."""
    with trio.fail_after(PATIENCE):
        while proxy.closes() != causes:
            await wait_all_tasks_blocked(0.005)


def reasons(caplog: pytest.LogCaptureFixture, message: str) -> list[str]:
    found = [record for record in caplog.records if record.message == message and record.levelno >= logging.WARNING]
    return [str(keys_of(record).get("reason", "")) for record in found]
