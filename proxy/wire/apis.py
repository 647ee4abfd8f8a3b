"""The messages that this catalog knows: api key -> its request and its response, in all versions.

A `.kafka` file is read when its api is first asked for. Pure lookups, no functions are compiled here.
"""

from functools import cache, lru_cache
from operator import index
from typing import Literal, NamedTuple

from proxy.wire.errors import Malformed
from proxy.wire.folder import Folder
from proxy.wire.language import Message, parse

MessageKind = Literal["request", "response"]
KINDS: tuple[MessageKind, ...] = ("request", "response")

MESSAGES = Folder("messages")


API_KEY, API_VERSION = "an api key", "an api's version"


class Api(NamedTuple):
    """The two messages of an api."""

    request: Message
    response: Message

    @property
    def name(self) -> str:
        """Kafka's name of the api, such as `Fetch`."""
        return self.request.api


@cache
def _names() -> dict[int, str]:
    """api key -> file name; the number in front is the key."""
    return {int(name.split("_", 1)[0]): name for name in MESSAGES.names()}


INT16 = range(-(1 << 15), 1 << 15)


def checked(number: int, what: str) -> None:
    """Raises an error unless `number` can be an api key or a version on the wire. `what` names it in errors.

    Errors: TypeError for anything but an integer (a bool is none), Malformed beyond an int16.
    """
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        hint = f": api_key({number!r}) tells it" if isinstance(number, str) and what == API_KEY else ""
        raise TypeError(f"{what} is a number, not {number!r}{hint}")
    if index(number) not in INT16:
        raise Malformed(f"{what} is an int16, which {number} is not")


# typed: a bool equals 0 or 1
@lru_cache(maxsize=None, typed=True)
def api(key: int) -> Api | None:
    """The api's messages; None if the catalog lacks the key. Errors: as `checked`."""
    checked(key, API_KEY)
    name = _names().get(key)
    if name is None:
        return None
    request, response = parse(MESSAGES.text(name))
    return Api(request, response)


def message(kind: MessageKind, key: int) -> Message | None:
    """The request's or the response's schema; None if the catalog lacks the key.

    Errors: ValueError for an unknown kind, and as `checked`.
    """
    if kind not in KINDS:
        raise ValueError(f"a message of an api is a request or a response, not {kind!r}")
    found = api(key)
    return getattr(found, kind) if found else None


def api_keys() -> tuple[int, ...]:
    """All known api keys, ascending."""
    return tuple(_names())


def api_name(key: int) -> str | None:
    """Kafka's name: "Metadata" for 3."""
    found = api(key)
    return found.name if found else None


def name_or_key(key: int) -> str:
    """Kafka's name; "api 12345" for a key that Kafka does not have."""
    return api_name(key) or f"api {key}"


@cache
def _keys() -> dict[str, int]:
    return {found.name: key for key in api_keys() if (found := api(key))}


def api_key(name: str) -> int | None:
    """3 for "Metadata"; None for a name that Kafka's newest release doesn't use."""
    return _keys().get(name)


def versions(key: int) -> range:
    """The known versions, old floors included; empty for an unknown key. Request and response always have the same."""
    found = api(key)
    return found.request.versions if found else range(0)


def known(key: int, version: int) -> bool:
    """True if the catalog has this version of this api. Errors: as `checked`, for the version."""
    checked(version, API_VERSION)
    return version in versions(key)


@cache
def first_flexible(key: int) -> int:
    """The first version with compact lengths and tags; beyond all versions if there is none or the key is unknown."""
    found = api(key)
    return found.request.flexible.start if found and found.request.flexible else 1 << 15


def is_flexible(key: int, version: int) -> bool:
    """True if this version has compact lengths and tags. Versions newer than the catalog are flexible if its last is.

    Errors: as `checked`, for the key.
    """
    checked(key, API_KEY)
    return version >= first_flexible(key)
