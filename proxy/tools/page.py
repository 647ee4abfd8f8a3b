"""Generates the page docs/apis.md from the catalog."""

from __future__ import annotations

from collections.abc import Iterator

from proxy.tools import listing
from proxy.wire.kafka07 import RequestType
from proxy.wire.releases import releases, versions_in

_HEAD = """\
# APIs and versions

`make docs` (`kafka-wiretap wire list --markdown`) writes this page from the message files in `proxy/wire/messages/` and
`proxy/wire/embedded/`. The library ([wire.md](wire.md)) can decode, encode, project and walk each API's request and
response, in all versions of every release from 0.8 to 4.4. That includes versions that later releases removed.

- *flexible*: the versions with compact lengths and tagged fields (KIP-482)
- *holds secrets*: the messages with fields that are masked in captures
- the columns of numbers: the versions that these releases of Kafka have, by their own definitions

`kafka-wiretap wire show NAME VERSION` prints the fields of a message.
"""


def lines() -> Iterator[str]:
    """Yields the lines of the page."""
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
    """Returns an api's versions in each release as text; "" for a release without the api."""
    found = [versions_in(release, key) for release in releases()]
    return [listing.span(versions) if versions else "" for versions in found]
