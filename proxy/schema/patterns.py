"""Names and patterns of names, as users write them: the only matcher of such lists.

A list of patterns selects the names that one of its patterns matches. A pattern that begins with `!` excludes the names
that it matches, whatever the other patterns say. A list of `!` patterns alone selects all other names. `*`, `?` and
`[...]` work as in a shell, with two exceptions, so that names with brackets need no quoting:

- A name that is spelled like a pattern is meant by it: `app[12]` means app1, app2 and app[12].
- Brackets around one letter or digit, or around an IPv6 address, are text: `worker[1]`, `[::1]:*`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate

from proxy.schema.addresses import meant

NOT = "!"
# the number of names whose results are cached, and the characters of the longest of them: peers choose the names
MAX_REMEMBERED, LONGEST_REMEMBERED = 4096, 256

_BRACKETS = re.compile(r"\[([^\[\]]+)\]")
# a set of letters as `fnmatch` reads it, or one character
_PIECE = re.compile(r"\[!?\]?[^\]]*\]|.", re.DOTALL)
_WILD = re.compile(r"[*?]|\[[^\]]+\]")


class Patterns:
    """A list of patterns, compiled; None matches every name.

    `ignore_case`: letters match in either case. `addresses`: the names are addresses (HOST:PORT); an address in the
    list may be spelled as `proxy.schema.addresses.meant` says, with or without its port.
    """

    def __init__(self, patterns: Iterable[str] | None, *, ignore_case: bool = False, addresses: bool = False) -> None:
        given = [pattern.lower() if ignore_case else pattern for pattern in patterns or ()]
        wanted = [pattern for pattern in given if not pattern.startswith(NOT)]
        unwanted = [pattern.removeprefix(NOT) for pattern in given if pattern.startswith(NOT)]
        self._ignore_case = ignore_case
        self._wanted = _compiled(wanted, addresses) if wanted else re.compile("")
        self._unwanted = _compiled(unwanted, addresses) if unwanted else None
        self._cache: dict[str, bool] = {}
        self.matches_all = not given

    def matches(self, name: str) -> bool:
        """True if the name is selected."""
        if self.matches_all:
            return True
        answer = self._cache.get(name)
        if answer is None:
            answer = self._match(name.lower() if self._ignore_case else name)
            if len(self._cache) < MAX_REMEMBERED and len(name) <= LONGEST_REMEMBERED:
                self._cache[name] = answer
        return answer

    def _match(self, name: str) -> bool:
        return bool(self._wanted.match(name)) and not (self._unwanted and self._unwanted.match(name))


def matching_nothing(patterns: Iterable[str], *, ignore_case: bool = False, addresses: bool = False) -> list[str]:
    """The patterns of a list that can match no name, because the list's `!` patterns exclude all that they match.

    These are names that are excluded; and everything, if `!*` is in the list.
    """
    given = [*patterns]
    wanted = [pattern for pattern in given if not pattern.startswith(NOT)]
    unwanted = [pattern.removeprefix(NOT) for pattern in given if pattern.startswith(NOT)]
    if any(not pattern.strip("*") for pattern in unwanted):
        return wanted or given
    excluded = Patterns(unwanted, ignore_case=ignore_case, addresses=addresses)
    return [pattern for pattern in wanted if unwanted and _is_name(pattern) and excluded.matches(pattern)]


def may_match(pattern: str, letters: str, longest: int) -> bool:
    """True if the pattern matches a name of 1 to `longest` of these letters."""
    pieces = _PIECE.findall(_with_text_brackets(pattern))
    single = [re.compile(translate(piece)) for piece in pieces if piece != "*"]
    has_room = len(single) <= longest and bool(pieces)
    return has_room and all(any(map(piece.match, letters)) for piece in single)


def _compiled(patterns: Iterable[str], addresses: bool) -> re.Pattern[str]:
    return re.compile("|".join(part for pattern in patterns for part in _expressions(pattern, addresses)))


def _expressions(pattern: str, addresses: bool) -> list[str]:
    """Regular expressions, anchored at the end, for the names that the pattern means."""
    found = [translate(_with_text_brackets(pattern)), rf"(?s:{re.escape(pattern)})\Z"]
    if addresses:
        address = meant(pattern)
        found += [rf"{re.escape(exact)}\Z" for exact in address.exact]
        found += [re.escape(beginning) for beginning in address.beginnings]
    return found


def _with_text_brackets(pattern: str) -> str:
    """The pattern with those brackets quoted that are text."""
    return _BRACKETS.sub(lambda found: f"[[]{found[1]}]" if _is_text(found[1]) else found[0], pattern)


def _is_text(inside: str) -> bool:
    return (len(inside) == 1 and inside.isalnum()) or meant(inside).is_ipv6


def _is_name(pattern: str) -> bool:
    """True for a pattern without wildcards."""
    return not _WILD.search(_with_text_brackets(pattern).replace("[[]", ""))
