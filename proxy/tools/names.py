"""Names as people type them: Kafka's own in any case, with `_` or `-` or without; apis by their key too."""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache

from proxy.wire import catalog, embedded
from proxy.wire.apis import INT16, Kind


class UnknownName(ValueError):
    """A name that nothing has; the text names what is near it."""


def api_key(text: str) -> int:
    """3 for "Metadata", "metadata", "METADATA_REQUEST" or "3". An int16 is taken as it is, whether known or not.

    Errors: UnknownName.
    """
    if text.isascii() and text.isdigit():
        if int(text) not in INT16:
            raise UnknownName(f"an api's key is an int16, which {text} is not")
        return int(text)
    names = _keys_by_plain_name()
    for one in (_plain(text), _plain(text).removesuffix("request").removesuffix("response")):
        if one in names:
            return names[one]
    raise UnknownName(unknown("API", text, [str(catalog.api_name(key)) for key in catalog.api_keys()]))


def api_or_embedded(text: str) -> int | str:
    """An api's key; or the name of a message inside messages, such as "ConsumerProtocolAssignment".

    Errors: UnknownName.
    """
    by_plain = {_plain(name): name for name in embedded.names()}
    if _plain(text) in by_plain:
        return by_plain[_plain(text)]
    try:
        return api_key(text)
    except UnknownName:
        raise UnknownName(unknown("API or message", text, every_name())) from None


def kind(text: str) -> Kind | None:
    """Which message of an api that name is of: "request" for "metadata_request", None for "Metadata"."""
    plain = _plain(text)
    kinds: tuple[Kind, ...] = ("request", "response")
    return next((one for one in kinds if plain.removesuffix(one) != plain and plain not in _keys_by_plain_name()), None)


def every_name() -> list[str]:
    """All apis by Kafka's names, then all embedded messages."""
    return [*(str(catalog.api_name(key)) for key in catalog.api_keys()), *embedded.names()]


def unknown(what: str, text: str, names: list[str]) -> str:
    """The sentence that says so, with what is near."""
    by_plain = {_plain(name): name for name in names}
    near = [by_plain[name] for name in get_close_matches(_plain(text), by_plain)]
    return f"no {what} is called {text!r}" + (f"; near: {', '.join(near)}" if near else "")


@cache
def _keys_by_plain_name() -> dict[str, int]:
    return {_plain(str(catalog.api_name(key))): key for key in catalog.api_keys()}


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "").replace(" ", "")
