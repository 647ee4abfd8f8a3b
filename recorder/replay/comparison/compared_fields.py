"""The fields of a response in one version, each with the rule by which it is compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from proxy.wire import apis, secrets
from proxy.wire.catalog import CACHE_SIZE
from proxy.wire.error_codes import is_error_code
from proxy.wire.language import Field
from proxy.wire.places import Level
from recorder.replay.mapping import ValueKind
from recorder.replay.requests import fields
from recorder.replay.requests.fields import ComparisonRule, Ways, level, ways

# rules that hold for all fields below, and fields that aren't compared by themselves
_BELOW = (ComparisonRule.LEFT_OUT, ComparisonRule.UNION)
# rules by which equal values are no difference
_ALIKE = frozenset(ComparisonRule) - {ComparisonRule.MAPPED, ComparisonRule.UNION, ComparisonRule.ELECTED}


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


@lru_cache(CACHE_SIZE)
def compared_fields(api_key: int, version: int) -> ComparedFields:
    """The fields of a response; () for one that the catalog lacks."""
    response = apis.message("response", api_key)
    return _Response(api_key, version).lines(response.fields, "", None) if response else ()


class _Response:
    """The rules of one response's fields."""

    def __init__(self, api_key: int, version: int) -> None:
        self._api_key, self._version = api_key, version
        self._kinds = fields.of("response", api_key, version)
        self._secrets = frozenset(secrets("response", api_key, version))

    def lines(self, of: tuple[Field, ...], above: str, inherited: ComparisonRule | None) -> ComparedFields:
        return tuple(self._line(one, above + one.name, inherited) for one in of if self._version in one.versions)

    def _line(self, field: Field, path: str, inherited: ComparisonRule | None) -> ComparedField:
        what = self._kinds.get(path)
        how = inherited or fields.rule(self._api_key, what)
        is_array, is_error = bool(field.fields) and field.is_array, is_error_code(field.name)
        inner = self.lines(field.fields, path + ".", how if how in _BELOW else None)
        return ComparedField(
            name=field.name,
            path=path,
            how=how,
            what=what,
            named=ways(self._api_key, path) if is_array else None,
            level=level(self._api_key, path) if is_array else Level.OTHER,
            is_secret=path in self._secrets,
            is_error=is_error,
            is_compared=not is_error and how not in _BELOW and what is not ValueKind.PRODUCER_EPOCH,
            inner=inner,
            whats={line.name: line.what for line in inner if line.what},
            unions=tuple(line.name for line in inner if is_array and line.how is ComparisonRule.UNION is not how),
            is_plain=how in _ALIKE and (what in (None, ValueKind.OWN)) and all(line.is_plain for line in inner),
        )
