"""An api as people type it: Kafka's name in any case, with `_` or `-` or without, or the key."""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache

from proxy.wire import catalog


class UnknownName(ValueError):
    """A name that nothing has; the text names what is near it."""


def api_key(text: str) -> int:
    """3 for "Metadata", "metadata", "METADATA_REQUEST" or "3". A number is taken as it is, whether known or not.

    Errors: UnknownName.
    """
    if text.isascii() and text.isdigit():
        return int(text)
    names = _keys_by_plain_name()
    for one in (_plain(text), _plain(text).removesuffix("request").removesuffix("response")):
        if one in names:
            return names[one]
    raise UnknownName(unknown("API", text, [str(catalog.api_name(key)) for key in catalog.apis()]))


def unknown(what: str, text: str, names: list[str]) -> str:
    """The sentence that says so, with what is near."""
    by_plain = {_plain(name): name for name in names}
    near = [by_plain[name] for name in get_close_matches(_plain(text), by_plain)]
    return f"no {what} is called {text!r}" + (f"; near: {', '.join(near)}" if near else "")


@cache
def _keys_by_plain_name() -> dict[str, int]:
    return {_plain(str(catalog.api_name(key))): key for key in catalog.apis()}


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "").replace(" ", "")
