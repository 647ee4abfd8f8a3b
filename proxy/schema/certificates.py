"""Whether a page that asks for a token needs a certificate: beyond loopback, its token would pass in clear."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from proxy.ips import is_loopback
from proxy.schema.addresses import Address
from proxy.schema.faults import Fault


def wrong_certificate(
    page: Address | None, chain: Path | None, key: Path | None, *, named: tuple[str, str, str]
) -> Iterator[Fault]:
    """The faults of a page's address (None: there is no page), its certificate and the certificate's key.

    `named`: how the user writes the three of them.
    """
    of_page, of_chain, of_key = named
    if (chain is None) != (key is None):
        yield Fault(f"{of_chain} and {of_key} belong together", "both, or none")
    if page is not None and chain is None and not is_loopback(page.host):
        right = f"{of_chain} and {of_key}, or {of_page} 127.0.0.1:{page.port}"
        yield Fault(f"{of_page} {page} is beyond loopback, where it needs TLS", right)
