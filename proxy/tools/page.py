"""The page docs/apis.md, generated from the catalog: `make docs` writes it, a test compares it."""

from __future__ import annotations

from collections.abc import Iterator

from proxy.tools import listing
from proxy.wire.kafka07 import RequestType
from proxy.wire.releases import releases, versions_in

_HEAD = """\
# APIs and versions

Written by `make docs` (`kafka-wiretap wire list --markdown`) from the message files in `proxy/wire/messages/` and
`proxy/wire/embedded/`; a test compares it with them. Each of these can be decoded, encoded, projected and walked, an
API's request and response: all versions of every release from 0.8 to 4.4, those that later releases removed included.
The columns of numbers say which of them four of these releases have, by their own definitions (a test compares them).
*Flexible* versions have compact lengths and tagged fields (KIP-482). What *holds secrets* has values that are masked in
captures. The fields of one, in a terminal: `kafka-wiretap wire show NAME VERSION`. How to use them from Python:
[wire.md](wire.md).
"""


def lines() -> Iterator[str]:
    """The page, line by line."""
    rows, inside = [(*row, *_released(row.key)) for row in listing.listed()], listing.embedded_rows()
    yield from _HEAD.splitlines()
    yield ""
    yield f"{len(rows)} APIs:"
    yield ""
    yield from listing.as_markdown((*listing.TITLES, *releases()), rows)
    yield ""
    yield f"{len(RequestType)} requests of Kafka 0.7, a dialect of its own without versions:"
    yield ""
    yield from listing.as_markdown(listing.TITLES_07, listing.rows_07())
    yield ""
    yield f"{len(inside)} messages inside messages, in bytes fields and in the records of internal topics:"
    yield ""
    yield from listing.as_markdown(listing.EMBEDDED_TITLES, inside)


def _released(key: int) -> list[str]:
    """An api's versions in each release, as people write them; "" for a release without the api."""
    found = [versions_in(release, key) for release in releases()]
    return [listing.span(versions) if versions else "" for versions in found]
