"""The ids of connections, exchanges and frames, as people and programs give them."""

from __future__ import annotations

import re
from typing import NamedTuple

from proxy.option_types import LARGEST_NUMBER

_NUMBER = "[0-9]{1,19}"
# The forms of an id, the longest first. A part of digits alone can be a session's name only in an id of three parts.
_FORMS = (
    re.compile(rf"(?P<session>[^/]+)/(?P<connection>{_NUMBER})/(?P<exchange>e?)(?P<number>{_NUMBER})"),
    re.compile(rf"(?P<session>)(?P<connection>{_NUMBER})/(?P<exchange>e?)(?P<number>{_NUMBER})"),
    # every text matches in one way only: long ones that are no id take no longer than they are
    re.compile(rf"(?:(?P<session>[0-9]*[^/0-9][^/]*)/)?(?P<connection>{_NUMBER})(?P<exchange>)(?P<number>)"),
)


class Id(NamedTuple):
    """An id of a connection, or of one exchange or frame of it.

    `session`: the session's name or a prefix of it; None if the id has no session.
    """

    session: str | None
    connection: int
    exchange: int | None = None
    sequence: int | None = None

    def __str__(self) -> str:
        parts = [*([self.session] if self.session else []), str(self.connection)]
        parts += [] if self.exchange is None else [f"e{self.exchange}"]
        return "/".join([*parts, *([] if self.sequence is None else [str(self.sequence)])])


def id_in(text: str) -> Id | None:
    """Parses [SESSION/]CONNECTION[/eEXCHANGE or /FRAME]; None: it is no id."""
    found = next(filter(None, (form.fullmatch(text) for form in _FORMS)), None)
    numbers = [int(found[name]) for name in ("connection", "number") if found[name]] if found else []
    if found is None or max(numbers) > LARGEST_NUMBER:
        return None
    session = found["session"] or None
    if len(numbers) == 1:
        return Id(session, numbers[0])
    return Id(session, numbers[0], **{"exchange" if found["exchange"] else "sequence": numbers[1]})


def exchange_in(text: str) -> tuple[str, int, int]:
    """Session, connection and exchange of an exchange's whole id. Errors: ValueError, with a sentence for users."""
    found = id_in(text)
    if found is None or found.session is None or found.exchange is None:
        raise ValueError("this is no exchange's id; right would be SESSION/CONNECTION/eNUMBER")
    return found.session, found.connection, found.exchange
