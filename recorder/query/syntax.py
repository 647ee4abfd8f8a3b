"""A filter as a tree: conditions on fields, joined by and, or, not."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

from recorder.moments import Moment
from recorder.query.fields import FIELDS, Field

# operators; ALONE: a field without an operator
EQUAL, UNEQUAL, LIKE, UNLIKE, ALONE = "==", "!=", "~", "!~", ""
ORDERS: Mapping[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
OPERATORS = (EQUAL, UNEQUAL, LIKE, UNLIKE, *ORDERS)


@dataclass(frozen=True)
class Comparison:
    """A condition on a field. `values`: one; several after `in`, of which one must be equal."""

    field: Field
    operator: str
    values: tuple[Any, ...] = ()

    depth = 1


@dataclass(frozen=True)
class Not:
    """Holds if `part` holds for no element."""

    part: Node

    @cached_property
    def depth(self) -> int:
        """The levels of the tree."""
        return self.part.depth + 1


@dataclass(frozen=True)
class _Parts:
    parts: tuple[Node, ...]

    @cached_property
    def depth(self) -> int:
        """The levels of the tree."""
        return max((part.depth for part in self.parts), default=0) + 1


class And(_Parts):
    """Holds if all parts do, for one element."""


class Or(_Parts):
    """Holds if one of the parts does."""


Node: TypeAlias = Comparison | Not | And | Or
EVERYTHING = And(())


def comparisons(node: Node) -> Iterator[Comparison]:
    """All conditions of a tree."""
    match node:
        case Comparison():
            yield node
        case Not(part):
            yield from comparisons(part)
        case And(parts) | Or(parts):
            for part in parts:
                yield from comparisons(part)


def names(node: Node) -> frozenset[str]:
    """The names of the fields in a tree."""
    return frozenset(each.field.name for each in comparisons(node))


def together(*nodes: Node) -> Node:
    """Holds if all of the nodes do; flat, and one node is itself."""
    parts = [part for node in nodes for part in (node.parts if isinstance(node, And) else (node,))]
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def required(node: Node) -> tuple[Node, ...]:
    """The conditions that must all hold."""
    return node.parts if isinstance(node, And) else (node,)


def resolved(node: Node, last_ns: Callable[[], int]) -> Node:
    """The tree with each moment as ns since 1970. `last_ns`: as of `Moment.resolved`."""
    match node:
        case Comparison(values=values) if any(isinstance(value, Moment) for value in values):
            return replace(
                node, values=tuple(each.resolved(last_ns) if isinstance(each, Moment) else each for each in values)
            )
        case Comparison():
            return node
        case Not(part):
            return Not(resolved(part, last_ns))
        case And(parts):
            return And(tuple(resolved(part, last_ns) for part in parts))
        case Or(parts):
            return Or(tuple(resolved(part, last_ns) for part in parts))


def condition(name: str, operator: str, *values: Any) -> Comparison:
    """A condition on the field of this name."""
    return Comparison(FIELDS[name], operator, values)
