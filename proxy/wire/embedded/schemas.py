"""The embedded messages by name, and those of a log by number. All are read when the first is needed.

Pure lookups; functions are compiled by `catalog`'s `Codec`, when first called.
"""

from functools import cache, lru_cache

from proxy.wire.catalog import CACHE_SIZE, Codec
from proxy.wire.folder import Folder
from proxy.wire.language import Message, parse

FILES = Folder("embedded")


@cache
def files() -> dict[str, tuple[Message, ...]]:
    """file name without its ending -> its messages."""
    return {name.removesuffix(".kafka"): parse(FILES.text(name)) for name in FILES.names()}


@cache
def _by_name() -> dict[str, Message]:
    return {found.name: found for messages in files().values() for found in messages}


def names() -> tuple[str, ...]:
    """Kafka's names of all embedded messages, grouped by container: "ConsumerProtocolSubscription", ..."""
    return tuple(_by_name())


def message(name: str) -> Message | None:
    """The schema; None if the catalog lacks the name."""
    return _by_name().get(name)


def versions(name: str) -> range:
    """The known versions; empty for an unknown name."""
    found = message(name)
    return found.versions if found else range(0)


@lru_cache(CACHE_SIZE)
def codec(name: str, version: int) -> Codec | None:
    """The codec of that message in that version, without any prefix; None if the catalog lacks it."""
    found = message(name)
    return Codec(found, version, (must, (name, version))) if found and version in found.versions else None


def must(name: str, version: int) -> Codec:
    """The codec of that message in that version. Errors: ValueError if the catalog lacks it."""
    found = codec(name, version)
    if found is None:
        raise ValueError(f"no embedded message {name} version {version} in the catalog")
    return found


@cache
def numbered(file: str, ending: str = "") -> dict[int, str]:
    """number -> name, of the messages of one file whose names end with `ending`."""
    return {one.key: one.name for one in files()[file] if one.key is not None and one.name.endswith(ending)}
