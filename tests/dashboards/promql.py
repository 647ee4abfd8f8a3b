"""Reads as much of PromQL as the tests of dashboards need: the series in an expression, and their labels.

It is no parser: promtool checks the syntax. It finds selectors, groupings and arguments of `rate`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

SELECTOR = re.compile(
    r"\b(?P<name>[A-Za-z_][A-Za-z0-9_:]*)\s*\{(?P<matchers>[^}]*)\}\s*(?P<range>\[[^\]]*\])?\s*(offset\s+[$\w]+)?"
)
MATCHER = re.compile(r'\s*([a-z_]+)\s*(?:=~|!~|!=|=)\s*"[^"]*"\s*(?:,|$)')
GROUPING = re.compile(r"\bby\s*\(([^)]*)\)")
CALL = re.compile(r"\b[a-z_]+(?=\s*\()")
TEXT = re.compile(r'"[^"]*"')
VARIABLE = re.compile(r"\$\w+")
NAME = re.compile(r"[a-z_][a-z0-9_]*")
MATCHING = re.compile(r"\b(on|group_left|group_right)\s*\([^)]*\)")
OPERATORS = frozenset({"by", "or", "and", "unless"})


@dataclass(frozen=True, slots=True)
class Selector:
    name: str
    labels: frozenset[str]
    ranged: bool


def selectors(expression: str) -> Iterator[Selector]:
    for found in SELECTOR.finditer(expression):
        matchers = found["matchers"]
        labels = frozenset(MATCHER.findall(matchers))
        assert not MATCHER.sub("", matchers), f"matchers that are not understood: {matchers}"
        yield Selector(found["name"], labels, found["range"] is not None)


def groupings(expression: str) -> list[frozenset[str]]:
    """The labels of each `by (...)`."""
    return [frozenset(label.strip() for label in inside.split(",")) for inside in GROUPING.findall(expression)]


def stray_names(expression: str) -> set[str]:
    """Words that are neither selector with braces, function, label, variable nor operator: series without a matcher."""
    expression = TEXT.sub("", SELECTOR.sub("", expression))
    rest = VARIABLE.sub("", MATCHING.sub("", GROUPING.sub("", expression)))
    return set(NAME.findall(CALL.sub("", rest))) - OPERATORS
