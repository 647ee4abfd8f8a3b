"""The fields of a response in one version, each with the rule by which it is compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from proxy.wire import apis, secrets
from proxy.wire.error_codes import is_error_code
from proxy.wire.language import Field
from proxy.wire.places import Level
from recorder.replay.comparison.elements import Ways, level, ways
from recorder.replay.comparison.volatile import MOST_RESPONSES, ROWS, ComparisonRule, rules
from recorder.replay.mapping import ValueKind
from recorder.replay.requests import fields

# fields that aren't compared by themselves
_NOT_ALONE = (ComparisonRule.LEFT_OUT, ComparisonRule.UNION)
# rules by which equal values are no difference
_ALIKE = frozenset(ComparisonRule) - {ComparisonRule.MAPPED, ComparisonRule.UNION, ComparisonRule.ELECTED}
_UNIONS = frozenset(row for row, how in ROWS.items() if how is ComparisonRule.UNION)


@dataclass(frozen=True, slots=True)
class ComparedField:
    """One field.

    Attributes:
        what: the kind of its value; None if the value means the same on both sides.
        named: how the elements of an array of structs are named; None for any other field.
        level: what those elements stand for; OTHER for any other field.
        inner: the fields of a struct; `whats`: their kinds, by name.
        is_error: it is an error code.
        unions: fields of an array's members that are compared for all of them together.
        is_compared: it is compared by itself. Errors come before all others, a producer's epoch with its id.
        is_plain: it means the same on both sides, with all inner fields: equal values need no further look.
    """

    name: str
    path: str
    how: ComparisonRule
    what: ValueKind | None
    named: Ways | None
    level: Level
    is_secret: bool
    is_error: bool
    is_compared: bool
    inner: tuple[ComparedField, ...]
    whats: Mapping[str, ValueKind]
    unions: tuple[str, ...]
    is_plain: bool


ComparedFields = tuple[ComparedField, ...]


@lru_cache(MOST_RESPONSES)
def compared_fields(api_key: int, version: int) -> ComparedFields:
    """The fields of a response; () for one that the catalog lacks."""
    response = apis.message("response", api_key)
    return _Response(api_key, version).lines(response.fields, "") if response else ()


class _Response:
    """The rules of one response's fields."""

    def __init__(self, api_key: int, version: int) -> None:
        self._api_key, self._version = api_key, version
        self._rules = rules(api_key, version)
        self._state = fields.of("response", api_key, version)
        self._secrets = frozenset(secrets("response", api_key, version))

    def lines(self, of: tuple[Field, ...], above: str) -> ComparedFields:
        return tuple(self._line(field, above + field.name) for field in of if self._version in field.versions)

    def _line(self, field: Field, path: str) -> ComparedField:
        how, state = self._rules[path], self._state.get(path)
        what = state.what if state else None
        is_array, is_error = bool(field.fields) and field.is_array, is_error_code(field.name)
        inner = self.lines(field.fields, path + ".")
        return ComparedField(
            name=field.name,
            path=path,
            how=how,
            what=what,
            named=ways(self._api_key, path) if is_array else None,
            level=level(self._api_key, path) if is_array else Level.OTHER,
            is_secret=path in self._secrets,
            is_error=is_error,
            is_compared=not is_error and how not in _NOT_ALONE and what is not ValueKind.PRODUCER_EPOCH,
            inner=inner,
            whats={line.name: line.what for line in inner if line.what},
            unions=tuple(line.name for line in inner if is_array and (self._api_key, line.path) in _UNIONS),
            is_plain=what is None and how in _ALIKE and all(line.is_plain for line in inner),
        )
