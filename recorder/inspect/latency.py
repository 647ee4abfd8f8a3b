"""Latency by API: percentiles of all exchanges that pass a filter, without an engine.

A percentile is a latency that occurred (nearest rank), as `analyze` has it. Long polls whose answers may have waited on
purpose have lines of their own: their latency says nothing of the broker's speed.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType

from proxy.wire.errors import OverBudget, in_bytes
from proxy.wire.long_polls import Wait
from recorder.capture import frames as c
from recorder.inspect.groups import LINE_SIZE
from recorder.query.evaluation import Element
from recorder.reading.exchanges import Pair
from recorder.terminal import Column, count, fitted, milliseconds

API, WAIT, COUNT, MAX = "api", "wait", "count", "max_ns"
# the names of `--by`, with the column of each
BY: Mapping[str, str] = {"client": "client_id", "node": "node", "topic": "topic"}
# values of WAIT
WAITING = "wait"
_SHARES = {"p50_ns": 50, "p95_ns": 95, "p99_ns": 99}
_MEASURES = (COUNT, *_SHARES, MAX)
Key = tuple[Any, ...]


def columns(by: str | None) -> tuple[str, ...]:
    """The columns of the lines."""
    return (API, *([BY[by]] if by else []), WAIT, *_MEASURES)


def latency(
    passed: Iterable[Pair],
    by: str | None,
    head: Callable[[Pair], Mapping[str, Any]],
    elements: Callable[[Pair], Iterable[Element]],
    *,
    most: int,
) -> list[dict[str, Any]]:
    """A line for each API, value of `by` and WAIT, the waits last, the most frequent first. Latencies in ns.

    An exchange that names several topics counts for each of them. Errors: OverBudget; those of `passed`.
    """
    found: defaultdict[Key, array[int]] = defaultdict(lambda: array("q"))
    size = 0
    for pair in passed:
        taken = pair.response[c.LATENCY_NS] if pair.response else None
        if taken is None:
            continue
        of_head = head(pair)
        for value in _values(by, of_head, elements(pair) if by == "topic" else ()):
            key = of_head[API], *value, _wait(pair)
            size += 0 if key in found else LINE_SIZE
            found[key].append(taken)
            size += found[key].itemsize
            if size > most:
                raise OverBudget(f"keeping latencies makes more than {in_bytes(most)}")
    names = columns(by)
    lines = [dict(zip(names, (*key, *_measured(taken)), strict=True)) for key, taken in found.items()]
    return sorted(lines, key=lambda line: (line[WAIT] is not None, -line[COUNT]))


def _values(by: str | None, head: Mapping[str, Any], elements: Iterable[Element]) -> Iterator[tuple[Any, ...]]:
    if by is None:
        yield ()
    elif by == "topic":
        named = dict.fromkeys(each.get("topic") for each in elements)
        topics = [topic for topic in named if isinstance(topic, str)]
        yield from ((topic,) for topic in topics or (None,))
    else:
        yield (head[BY[by]],)


def _wait(pair: Pair) -> str | None:
    """WAITING for a long poll that may have waited; INCLUDES_WAIT if its answer does not tell; else None."""
    wait = pair.reading.wait if pair.reading else None
    if wait is None or wait.is_work:
        return None
    return wait.value if wait is Wait.INCLUDES_WAIT else WAITING


def _measured(taken: array[int]) -> tuple[int, ...]:
    ordered = sorted(taken)
    ranks = (-(-len(ordered) * share // 100) for share in _SHARES.values())
    return len(ordered), *(ordered[rank - 1] for rank in ranks), ordered[-1]


def as_table(lines: Sequence[Mapping[str, Any]], by: str | None, width: int) -> RenderableType:
    """The lines as a table that fits into `width`; latencies in ms."""
    ranks = {API: 0, COUNT: 1, "p50_ns": 3, "p95_ns": 4, "p99_ns": 0, MAX: 2}
    names = columns(by)
    shown = [Column(_title(name), is_number=name in (*_MEASURES, "node"), rank=ranks.get(name, 0)) for name in names]
    cells = [[_cell(name, line[name]) for name in names] for line in lines]
    return fitted("Latency by API, long polls that may have waited apart", shown, cells, width)


def _title(name: str) -> str:
    return name.replace("_ns", " ms")


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name.endswith("_ns"):
        return milliseconds(value / 1e6)
    return count(value) if name == COUNT else str(value)
