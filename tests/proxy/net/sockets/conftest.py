"""Fixtures for tests of TLS: certificates, both versions, and two ends that speak it."""

import ssl
from collections.abc import AsyncIterator

import pytest

from proxy.config.tls import ListenerTls
from tests.proxy.net.tls_peers import Certificates, Ends, client_and_proxy, client_context


@pytest.fixture(params=["1.2", "1.3"])
def version(request: pytest.FixtureRequest) -> ssl.TLSVersion:
    return {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}[request.param]


@pytest.fixture
async def ends(signed: Certificates, version: ssl.TLSVersion) -> AsyncIterator[Ends]:
    """A client and the proxy after their TLS handshake."""
    context = client_context(signed.ca)
    context.maximum_version = version
    ends = client_and_proxy(signed, ListenerTls(signed.proxy), context, buffers=64 * 1024)
    await ends.shake_hands()
    yield ends
    ends.close()
