"""A short cut: an answer with the recorded bytes needs no comparison if each of its values is its own counterpart.

Only a value that the cluster assigned, or that names something in it, can have another counterpart. Most answers of a
target that behaves as recorded have few such values, or none (Heartbeat).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache

from proxy.wire.catalog import CACHE_SIZE
from recorder.replay.comparison.compared_fields import ComparedField, ComparedFields, compared_fields
from recorder.replay.comparison.elements import frozen
from recorder.replay.comparison.known import Counterparts, is_nothing
from recorder.replay.comparison.struct_paths import enclosing_names
from recorder.replay.comparison.terms import ASKED, NOWHERE, EnclosingNames, scope_of, with_epoch
from recorder.replay.mapping import ValueKind
from recorder.replay.messages import SharedValues
from recorder.replay.plan import Values
from recorder.replay.requests.apis import Trait, those
from recorder.replay.requests.fields import ComparisonRule, Ways

# APIs whose answers hold blobs of classic groups' members, with names of their own
WITH_BLOBS = those(Trait.WITH_BLOBS)


def is_its_own_counterpart(api_key: int, version: int, answer: Values, known: Counterparts) -> bool:
    """True if each value of a recorded answer is its own counterpart on the target.

    False may also mean that only a walk can tell.
    """
    if api_key in WITH_BLOBS:
        return False
    same = known.same
    named = _named(api_key, version, same)
    for what, scope, recorded in _lookups(named, same, answer) if named else ():
        found = known.expected(what, scope, recorded)
        if found is not None and found != recorded and frozen(found) != frozen(recorded):
            return False
    return True


def names_nothing(api_key: int, version: int, same: frozenset[ValueKind]) -> bool:
    """True if each value of any answer is its own counterpart. `same`: kinds of names that both sides share."""
    return api_key not in WITH_BLOBS and not _named(api_key, version, same)


# a field with values to look up, or with fields that have some
_Named = tuple[tuple[ComparedField, "_Named"], ...]


@lru_cache(CACHE_SIZE)
def _named(api_key: int, version: int, same: frozenset[ValueKind]) -> _Named:
    return _of(compared_fields(api_key, version), (), ASKED - same)


def _of(found: ComparedFields, ways: Ways, looked_up: frozenset[ValueKind]) -> _Named:
    """`ways`: how fields among these name their element."""
    names = {field for way in ways for field in way}
    looked_at = [line for line in found if line.how is not ComparisonRule.LEFT_OUT or line.name in names]
    each = ((line, _of(line.inner, line.named or (), looked_up)) for line in looked_at)
    return tuple((line, inner) for line, inner in each if inner or line.what in looked_up)


# the kind, scope and recorded value that the rooms are asked about
_Lookup = tuple[ValueKind, Hashable, Hashable]


def _lookups(named: _Named, same: frozenset[ValueKind], answer: Values) -> Sequence[_Lookup]:
    """The values of an answer that may have other counterparts: found once in an answer that comes again."""
    if not isinstance(answer, SharedValues):
        return [*_find_lookups(named, answer, NOWHERE)]
    if answer.lookups is None or answer.lookups[0] != same:
        answer.lookups = same, tuple(_find_lookups(named, answer, NOWHERE))
    return answer.lookups[1]


def _find_lookups(named: _Named, values: Values, where: EnclosingNames) -> Iterator[_Lookup]:
    for line, inner in named:
        value = values.get(line.name)
        if value is None:
            continue
        if line.what in ASKED:
            recorded = with_epoch(values, line.name)
            for one in recorded if isinstance(recorded, list) else [recorded]:
                if line.what is not None and not is_nothing(one):
                    yield line.what, scope_of(line.what, where), one
        if isinstance(value, dict):
            yield from _find_lookups(inner, value, where)
        if inner and isinstance(value, list):
            for element in value:
                yield from _find_lookups(inner, element, enclosing_names(where, line, element))
