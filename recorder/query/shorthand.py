"""Flags of commands as conditions: `--topic orders --topic payments` is `topic in (orders, payments)`.

A flag that is given several times passes whatever matches one of its values; different flags must all match.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proxy.terminal import printable
from recorder.filters import as_options
from recorder.query.fields import ALL, FAULTS, FIELDS
from recorder.query.language import parse
from recorder.query.syntax import ALONE, EQUAL, LIKE, UNEQUAL, Comparison, Node, Or, condition, names, together
from recorder.query.values import client, pattern

# what makes the value of a flag a pattern; a client may be an IPv6 address in brackets
_WILD, _WILD_CLIENT = re.compile(r"[*?\[]"), re.compile(r"[*?]")


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter, as a tree and as it was typed. `words`: options of a command line, each with its value."""

    node: Node
    words: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The names of its fields."""
        return names(self.node)


def filter_of(
    given: Mapping[str, Sequence[Any]],
    *,
    where: Sequence[str] = (),
    since_ns: int | None = None,
    until_ns: int | None = None,
    errors: str | None = None,
) -> Filter:
    """The filter of a command's flags. Moments in `where` are not resolved yet.

    Args:
        given: the values of flags, by the name of the field; APIs as `values.Api`.
        where: texts in the filter language.
        errors: FAULTS or ALL.
    Errors: FilterError.
    """
    parts = [_condition(name, values) for name, values in given.items() if values]
    parts += [] if since_ns is None else [condition("at", ">=", since_ns)]
    parts += [] if until_ns is None else [condition("at", "<=", until_ns)]
    parts += [_OF_ERRORS[errors]] if errors else []
    parts += [parse(text) for text in where]
    return Filter(together(*parts), tuple(_words(given, where, since_ns, until_ns, errors)))


_OF_ERRORS: Mapping[str, Node] = {FAULTS: condition("error", ALONE), ALL: condition("error", UNEQUAL, 0)}


def _condition(name: str, values: Sequence[Any]) -> Node:
    field = FIELDS[name]
    if name == "session":
        # how its name begins will do
        return _either([Comparison(field, LIKE, (pattern(_literal(each) + "*", field),)) for each in values])
    made: list[Any] = [client(each) if name == "client" and not _WILD_CLIENT.search(each) else each for each in values]
    # a key is bytes of the user's own
    wild = [each for each in made if name != "key" and _is_pattern(each)]
    exact = [each for each in made if each not in wild]
    like = [Comparison(field, LIKE, (pattern(each, field),)) for each in wild]
    return _either([*([Comparison(field, EQUAL, tuple(exact))] if exact else []), *like])


def _is_pattern(value: Any) -> bool:
    return isinstance(value, str) and bool(_WILD.search(value))


def _literal(text: str) -> str:
    """A pattern that means the text alone."""
    return _WILD.sub(lambda found: f"[{found[0]}]", text)


def _either(parts: Sequence[Node]) -> Node:
    return parts[0] if len(parts) == 1 else Or(tuple(parts))


def _words(
    given: Mapping[str, Sequence[Any]],
    where: Sequence[str],
    since_ns: int | None,
    until_ns: int | None,
    errors: str | None,
) -> Iterator[str]:
    yield from (as_options(apis=[each]) for each in given.get("api", ()))
    for name, values in given.items():
        for each in values if name != "api" else ():
            one: dict[str, Any] = {name: [each]}
            yield as_options(**one)
    yield from [as_options(since_ns=since_ns)] if since_ns is not None else []
    yield from [as_options(until_ns=until_ns)] if until_ns is not None else []
    if errors:
        yield f"--{errors.replace('_', '-')}"
    for text in where:
        yield f"--where {shlex.quote(printable(text))}"
