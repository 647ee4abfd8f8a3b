"""`replay show REPORT N`: both answers of a mismatch as trees, side by side if there is room.

    mark  the line
    !     differs, and the comparison counts it
    ~     differs in a value that the comparison leaves out, or maps: times, ids, epochs

The report has all that is shown: no capture is needed. Values that a capture may not keep are shown as masked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import NamedTuple

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from proxy.command_line import folded
from proxy.terminal import harmless, printable
from proxy.tools.body import body
from proxy.tools.plain import Line, as_lines, lines
from proxy.tools.tree import Shown
from proxy.wire.apis import MessageKind
from proxy.wire.budget import Budget
from proxy.wire.errors import in_bytes
from recorder.replay.outcome import Frame, Mismatch, Result
from recorder.replay.results import words
from recorder.terminal import count, moment, typed

# the narrowest terminal that shows two trees side by side
BESIDE = 100
# bytes of each value, records of each batch, and bytes of a frame that can't be decoded, as hex
MOST_BYTES, MOST_RECORDS, MOST_HEX = 32, 10, 256
# lines of a tree: matching them takes the square of that
MOST_LINES = 500
SAME, JUDGED, LEFT_OUT = " ", "!", "~"
STYLES = {SAME: "", JUDGED: "bold red", LEFT_OUT: "yellow"}
LEGEND = f"{JUDGED} differs   {LEFT_OUT} differs, but is not compared as it stands (times, ids, epochs ...)"


class Row(NamedTuple):
    """A line of each side ("" if there is none), and the mark of both."""

    recorded: str
    mark: str
    replayed: str


def whole_mismatch(result: Result, number: int, width: int, budget: Budget) -> Iterator[RenderableType]:
    """The whole of mismatch `number`, counted from 1. Errors: LookupError, with a sentence, if the report has none."""
    if not 1 <= number <= len(result.mismatches):
        has = f"mismatches 1 to {len(result.mismatches)}" if result.mismatches else "no mismatches"
        raise LookupError(f"no mismatch {number}: the report has {has}")
    found = result.mismatches[number - 1]
    yield from _head(result, number, found, width)
    yield from _request(found, width, budget)
    rows = aligned(found, budget)
    yield from _beside(found, rows, width) if width >= BESIDE else _below(found, rows, width)
    yield Text(LEGEND, style="dim")


def _head(result: Result, number: int, found: Mismatch, width: int) -> Iterator[Text]:
    api = f"{printable(found.api)} version {found.version} ({printable(found.kind)})"
    yield Text(f"Mismatch {number} of {len(result.mismatches)}: {api}", style="bold")
    told = f"exchange {words.exchange_id(found)}, {moment(found.at_ns)} UTC, client {found.client}"
    yield Text(printable(told))
    yield Text(f"as recorded: {harmless(words.command(result, number, None, typed()))}", style="dim")
    for one in found.differences:
        yield _folded(f"{JUDGED} {printable(words.difference(one))}", width, STYLES[JUDGED])
    if found.more:
        yield Text(f"{JUDGED} and {count(found.more)} more", style=STYLES[JUDGED])


def _folded(line: str, width: int, style: str = "") -> Text:
    return Text("\n".join(folded(line, width)), style=style)


def _request(found: Mismatch, width: int, budget: Budget) -> Iterator[Text]:
    yield Text("\nrequest, as recorded", style="bold")
    for line in _lines(found.request, "request", found.api_key, found.version, budget):
        yield _folded(harmless(line.text), width)
    yield Text()


def aligned(found: Mismatch, budget: Budget) -> list[Row]:
    """The lines of both answers, equal ones side by side."""
    recorded = _lines(found.recorded, "response", found.api_key, found.version, budget)
    replayed = _lines(found.replayed, "response", found.api_key, _replayed_in(found), budget)
    matcher = SequenceMatcher(None, [line.text for line in recorded], [line.text for line in replayed], autojunk=False)
    return [
        Row(_text(left), _mark(found, left, right), _text(right))
        for _, from_left, to_left, from_right, to_right in matcher.get_opcodes()
        for left, right in zip_longest(recorded[from_left:to_left], replayed[from_right:to_right])
    ]


def _replayed_in(found: Mismatch) -> int:
    """The version of the replayed answer."""
    return found.version if found.target_version is None else found.target_version


def _text(line: Line | None) -> str:
    return harmless(line.text) if line else ""


def _mark(found: Mismatch, left: Line | None, right: Line | None) -> str:
    """The mark of two lines. JUDGED: a difference is in the line's field, or around it.

    If not all differences are known, or one answer is missing, every differing line is JUDGED.
    """
    sides = [side for side in (left, right) if side]
    if left and right and left.text == right.text:
        masked = {words.field_of(one.path) for one in found.differences if one.recorded == one.replayed}
        return JUDGED if ".".join(left.path) in masked else SAME
    judged = {words.field_of(one.path) for one in found.differences}
    fields = {".".join(side.path[:depth]) for side in sides for depth in range(len(side.path) + 1)}
    return JUDGED if found.more or not judged or judged & fields else LEFT_OUT


def _lines(frame: Frame | None, kind: MessageKind, key: int, version: int, budget: Budget) -> list[Line]:
    """The lines of a frame's tree; a sentence in place of a missing frame."""
    if frame is None:
        return [Line("(none)", ())]
    if not frame.octets:
        return [Line("(not kept: it may hold a secret)", ())]
    tree = body(frame.octets, kind, key, version, Shown(mask=True, records=MOST_RECORDS, budget=budget))
    why = tree.why
    if frame.is_cut:
        why = f"only the first {in_bytes(len(frame.octets))} of {in_bytes(frame.size_bytes)} were kept"
    found = [Line(f"({printable(why)})", ())] if why else []
    if tree.values is None:
        return [*found, *(Line(text, ()) for text in as_lines({"bytes": frame.octets}, 0, MOST_HEX))]
    return found + _first(lines(tree.values, 0, MOST_BYTES))


def _first(every: Iterator[Line]) -> list[Line]:
    found: list[Line] = []
    for line in every:
        if len(found) == MOST_LINES:
            return [*found, Line("... (more lines than are compared)", ())]
        found.append(line)
    return found


def _titles(found: Mismatch) -> tuple[str, str]:
    return f"answer recorded, version {found.version}", f"answer replayed, version {_replayed_in(found)}"


def _beside(found: Mismatch, rows: Sequence[Row], width: int) -> Iterator[RenderableType]:
    half = (width - 5) // 2
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    titles = _titles(found)
    table.add_column(titles[0], width=half, overflow="fold")
    table.add_column("", width=1)
    table.add_column(titles[1], width=half - 2, overflow="fold")
    for row in rows:
        style = STYLES[row.mark]
        left, right = (_folded(text, half - 2, style) for text in (row.recorded, row.replayed))
        table.add_row(left, Text(row.mark, style=style), right)
    yield table


def _below(found: Mismatch, rows: Sequence[Row], width: int) -> Iterator[RenderableType]:
    for title, side in zip(_titles(found), ("recorded", "replayed"), strict=True):
        yield Text(title, style="bold")
        for row in rows:
            text = getattr(row, side)
            if text:
                yield _folded(f"{row.mark} {text}", width, STYLES[row.mark])
        yield Text()
