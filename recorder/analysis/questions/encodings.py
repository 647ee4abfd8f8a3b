"""The data of the study of encodings: its table's rows, the numbers of unread frames, and a sample of the read ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis.bodies import Captured
from recorder.analysis.tables.encodings import encodings, sample, sums
from recorder.capture import frames as c
from recorder.facts.frame import Frame
from recorder.facts.response_errors import is_cut
from recorder.facts.rows import UNREAD, masked_from


@dataclass(frozen=True, slots=True)
class Answer:
    """`rows`: those of ENCODINGS; `unread`: how many frames, by reason; `sample`: some frames of each api and side."""

    rows: Sequence[Mapping[str, Any]]
    unread: Mapping[str, int]
    sample: Sequence[Frame] = ()


def answer(captured: Captured, *, since_ns: int | None, until_ns: int | None, with_sample: bool) -> Answer:
    """Returns the study's data from the frames that arrived between these times, both included."""
    within = replace(captured, since_ns=since_ns, until_ns=until_ns).keeping()
    rows = [row.asDict() for row in encodings(within).collect()]
    lost = sums(within).filter(F.col(UNREAD).isNotNull()).groupBy(UNREAD).agg(F.sum("messages"))
    found = sample(within) if with_sample else []
    return Answer(rows, dict(sorted(map(tuple, lost.collect()))), [_frame(row.asDict(recursive=True)) for row in found])


def _frame(row: Mapping[str, Any]) -> Frame:
    body = bytes(row[c.FRAME] or b"")
    masked = masked_from(row[c.MASKED])
    return Frame(row[c.KIND], row[c.DIALECT], row[c.API_KEY], row[c.API_VERSION], body, masked, is_cut(row[c.NOTE]))
