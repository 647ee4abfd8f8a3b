"""Names as people type them: today's and former names of Kafka, in any case, with or without `_` or `-`.

Apis and errors may be given by their numbers too.
"""

from __future__ import annotations

from difflib import get_close_matches

from proxy.wire import apis, embedded
from proxy.wire.apis import INT16, KINDS, MessageKind
from proxy.wire.error_codes import ERRORS
from proxy.wire.kafka07 import RequestType
from proxy.wire.renamed import api_today, error_today, message_today, plain


class UnknownName(ValueError):
    """An unknown name; the text lists similar names."""


def api_key(text: str) -> int:
    """3 for "Metadata", "metadata", "METADATA_REQUEST", "TopicMetadata" (its name in the protocol guide) or "3".

    A number may be a key that the catalog lacks. Errors: UnknownName.
    """
    if text.isascii() and text.isdigit():
        if int(text) not in INT16:
            raise UnknownName(f"an api's key is an int16, which {text} is not")
        return int(text)
    key = apis.api_key(api_today(text) or "")
    if key is None:
        raise UnknownName(unknown("API", text, api_names()))
    return key


def api_or_embedded(text: str) -> int | str:
    """An api's key; or the name of a message inside messages, such as "ConsumerProtocolAssignment".

    Errors: UnknownName.
    """
    name = message_today(text)
    if name is not None:
        return name
    try:
        return api_key(text)
    except UnknownName:
        raise UnknownName(unknown("API or message", text, every_name())) from None


def api_of_07(text: str) -> RequestType | None:
    """FETCH for "0.7/fetch", its name in captures and metrics; None for any other name."""
    return next((asked for asked in RequestType if plain(asked.api) == plain(text)), None)


def kind(text: str) -> MessageKind | None:
    """The kind in a message's name: "request" for "metadata_request", None for "Metadata"."""
    return next((one for one in KINDS if plain(text).endswith(one)), None)


def error_code(text: str) -> int:
    """6 for "NOT_LEADER_OR_FOLLOWER", "NotLeaderForPartitionCode" or "6".

    Errors: UnknownName.
    """
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit():
        if int(text) not in ERRORS:
            raise UnknownName(f"Kafka has no error of code {text}; its codes are {min(ERRORS)} to {max(ERRORS)}")
        return int(text)
    codes = {error.name: error.code for error in ERRORS.values()}
    name = error_today(text)
    if name is None:
        raise UnknownName(unknown("error", text, [*codes]))
    return codes[name]


def note(text: str) -> str | None:
    """A remark on a former name; None for all other names."""
    today = api_today(text) or message_today(text) or error_today(text)
    bare = plain(text).removesuffix("request").removesuffix("response").removesuffix("code")
    return f"{text} is called {today} today" if today and plain(today) not in (plain(text), bare) else None


def api_names() -> list[str]:
    """All apis by Kafka's names."""
    return [str(apis.api_name(key)) for key in apis.api_keys()]


def every_name() -> list[str]:
    """The names of all apis, of 0.7's requests, and of all embedded messages, in this order."""
    return [*api_names(), *(asked.api for asked in RequestType), *embedded.names()]


def unknown(what: str, text: str, names: list[str]) -> str:
    """The error's sentence for an unknown name, with similar names."""
    by_plain = {plain(name): name for name in names}
    near = [by_plain[name] for name in get_close_matches(plain(text), by_plain)]
    return f"no {what} is called {text!r}" + (f"; near: {', '.join(near)}" if near else "")
