"""What a user writes for a value of a field -> the value that `evaluation` compares.

Texts stay texts; sizes become bytes, durations ns, times a `Moment`, errors codes, APIs an `Api`. A pattern becomes a
`Pattern`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from proxy.schema.addresses import MeantAddress, meant
from proxy.schema.patterns import Patterns
from proxy.similar import LIKELY, nearest
from proxy.terminal import quoted
from proxy.tools import names
from proxy.units import MAX_DIGITS, read_size, read_time
from recorder import moments
from recorder.capture import frames as c
from recorder.query.fields import Field, Kind
from recorder.query.syntax import LIKE, UNLIKE

_NUMBER = re.compile(r"-?[0-9]+")
# the name that lists have for a key without a name
_UNNAMED = re.compile(r"api ([0-9]+)", re.IGNORECASE)
# decimal sizes, as tables show them
_DECIMAL = re.compile(r"([0-9]{1,12}(?:\.[0-9]+)?)(kB|MB|GB|TB)", re.IGNORECASE)
_DECIMALS = {"kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_NANOSECONDS = 10**9
# what makes a text more than the beginning of names; a pattern that begins with ! leaves out
_SPECIAL = re.compile(r"[*?\[\]]|\A!")


class Api(NamedTuple):
    """An API. `dialect`: None for a key of any dialect."""

    key: int
    dialect: str | None


class Client(NamedTuple):
    """A client, by its client id or its address."""

    name: str
    address: MeantAddress


class Pattern(NamedTuple):
    """A pattern of names (`proxy.schema.patterns`), as written and compiled."""

    text: str
    compiled: Patterns

    @property
    def beginning(self) -> str | None:
        """The text with which a name must begin, for a pattern that asks for nothing else; None for others."""
        begun = self.text.removesuffix("*")
        return begun if begun != self.text and not _SPECIAL.search(begun) else None


def read_value(field: Field, operator: str, text: str) -> Any:
    """The value that a text means for a field. Errors: ValueError, with a sentence."""
    if operator in (LIKE, UNLIKE):
        return pattern(text, field)
    if field.choices and text not in field.choices:
        near = nearest(text, field.choices, likeness=LIKELY)
        right = f"did you mean {near}?" if near else f"right would be {', '.join(field.choices)}"
        raise ValueError(f"{quoted(text)} is no {field.name}: {right}")
    return _READERS[field.kind](text)


def pattern(text: str, field: Field) -> Pattern:
    """A pattern of a field's values."""
    ignore_case = field.kind in (Kind.API, Kind.ERROR)
    return Pattern(text, Patterns([text], ignore_case=ignore_case, addresses=field.kind is Kind.CLIENT))


def client(text: str) -> Client:
    """A client by its client id or its address."""
    return Client(text, meant(text))


def api(text: str) -> Api:
    """An API by its name (any case, former names too) or by its key. Errors: ValueError."""
    asked = names.api_of_07(text)
    if asked is not None:
        return Api(int(asked), c.KAFKA_07)
    if unnamed := _UNNAMED.fullmatch(text):
        text = unnamed[1]
    return Api(names.api_key(text), None if text.isdigit() else c.KAFKA)


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text) or len(text) > MAX_DIGITS:
        raise ValueError(f"{quoted(text)} is no number: right would be 3")
    return int(text)


def _size(text: str) -> int:
    size = read_size(text)
    if size is None:
        found = _DECIMAL.fullmatch(text)
        size = None if found is None else round(float(found[1]) * _DECIMALS[found[2].lower()])
    if size is None:
        raise ValueError(f"{quoted(text)} is no size: right would be 64KiB, 1.5MB or 500 (bytes)")
    return size


def _time(text: str) -> int:
    seconds = read_time(text) if text[-1:].isalpha() else None
    if seconds is None:
        raise ValueError(f"{quoted(text)} is no duration: right would be 100ms, 1.5s or 2m")
    return round(min(seconds, moments.LAST_NS / _NANOSECONDS) * _NANOSECONDS)


def _moment(text: str) -> moments.Moment:
    try:
        return moments.read(text)
    except ValueError:
        raise ValueError(f"{quoted(text)} is no time: right would be {moments.RIGHT}") from None


_READERS: Mapping[Kind, Callable[[str], Any]] = {
    Kind.TEXT: str,
    Kind.CLIENT: client,
    Kind.NUMBER: _number,
    Kind.SIZE: _size,
    Kind.TIME: _time,
    Kind.MOMENT: _moment,
    Kind.API: api,
    Kind.ERROR: names.error_code,
}
