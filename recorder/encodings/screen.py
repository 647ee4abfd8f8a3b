"""The study on a terminal: bytes by api, the fields that save most, times, and the document's own figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import RenderableType
from rich.text import Text

from recorder.encodings.document import CONTRADICTIONS, FIGURES, FIXED
from recorder.encodings.study import SIZES, Study, Taken
from recorder.encodings.times import Timed
from recorder.terminal import Cell, Column, count, fitted, size

_OTHERS = SIZES[1:]
# A narrow terminal drops numbers, never the labels of their rows, whose longest words these are.
_API = Column("API", least=len("Subscriptions"))
_SIDE = Column("side", least=len("response"))
_BODIES = (
    _API,
    _SIDE,
    Column("messages", True, rank=6),
    Column("sent", True, rank=5),
    Column("fixed", True),
    *(Column(name, True, rank=rank) for rank, name in enumerate(_OTHERS, 1)),
)
_FIELDS = (
    Column("field", least=20),
    Column("of", least=len("Subscriptions")),
    Column("fixed", True, rank=1),
    Column("best", True, rank=2),
    Column("saves", True),
    Column("best encoding", rank=3),
    Column("worst", True, rank=5),
    Column("versions", rank=4),
)
# both times of an encoding have one rank
_TIMES = (
    _API,
    _SIDE,
    Column("messages", True, rank=len(_OTHERS) + 1),
    *(Column(f"{verb} {name}", True, rank=rank) for verb in ("write", "read") for rank, name in enumerate(_OTHERS, 1)),
)
_DOCUMENT = (
    Column("KAFKA-9927's example"),
    Column("bytes", True),
    Column("of fixed", True, rank=1),
    Column("write", True, rank=2),
    Column("read", True, rank=3),
)


def shown(study: Study, width: int, limit: int) -> Iterator[RenderableType]:
    """The study as tables and lines; one sentence if there are no messages. `limit`: the most rows of each table."""
    yield from _unread(study.unread)
    if not study.bodies:
        yield Text("Nothing to count: no message is of this time, or none can be read.")
        return
    bodies = [_body(one) for one in study.bodies[:limit]]
    yield fitted("Bytes of bodies; other encodings as ratios to fixed", _BODIES, [*bodies, _body(study.total)], width)
    yield from _more(len(study.bodies), limit, "row")
    yield Text()
    fields = [_field(one) for one in study.fields[:limit]]
    yield fitted("Fields that would save most", _FIELDS, fields, width)
    yield from _more(len(study.fields), limit, "field")
    yield Text()
    if study.times:
        times = [_time(one) for one in _in_order(study)[:limit]]
        yield fitted("Processor time as ratios to fixed, median of rounds", _TIMES, times, width)
        yield from _more(len(study.times), limit, "row")
        yield Text()
    yield fitted("What the document says", _DOCUMENT, [*_figures(), *_metadata(study)], width)
    yield Text()
    yield Text(f"The document contradicts itself in {len(CONTRADICTIONS)} places: see docs/encodings.md.", "dim")


def _in_order(study: Study) -> list[Timed]:
    """The times, in the order of the bodies."""
    order = {(one.api, one.side): at for at, one in enumerate(study.bodies)}
    return sorted(study.times, key=lambda one: order.get((one.api, one.side), len(order)))


def _unread(unread: Mapping[str, int]) -> Iterator[RenderableType]:
    if unread:
        reasons = ", ".join(f"{why} {count(number)}" for why, number in sorted(unread.items()))
        yield Text(f"{count(sum(unread.values()), 'frame')} could not be read: {reasons}.", "bold")


def _more(total: int, limit: int, of: str) -> Iterator[RenderableType]:
    if total > limit:
        yield Text(f"the first {limit} of {count(total, of)}: --limit shows more, --format json all", "dim")


def _ratio(value: float) -> str:
    return f"{value:.2f}"


def _body(one: Taken) -> list[Cell]:
    ratios = [_ratio(one.ratio(name)) for name in _OTHERS]
    return [one.api, one.side, count(one.messages), size(one.sent), size(one.sizes["fixed"]), *ratios]


def _field(one: Taken) -> list[Cell]:
    numbers = [size(number) for number in (one.sizes["fixed"], one.sizes["best"], one.saved)]
    of = f"{one.api} {one.side}"
    versions = _span(one.versions)
    return [one.path or "", of, *numbers, ", ".join(one.best), size(one.sizes["worst"]), versions]


def _span(versions: Sequence[int]) -> str:
    return str(versions[0]) if len(versions) == 1 else f"{versions[0]}-{versions[-1]}"


def _time(one: Timed) -> list[Cell]:
    ratios = [_ratio(of[name]) for of in (one.serialize, one.deserialize) for name in _OTHERS]
    return [one.api, one.side, count(one.messages), *ratios]


def _figures() -> Iterator[list[Cell]]:
    for one in FIGURES:
        ratios = (one.bytes / FIXED.bytes, one.serialize / FIXED.serialize, one.deserialize / FIXED.deserialize)
        yield [one.name, count(one.bytes), *map(_ratio, ratios)]


def _metadata(study: Study) -> Iterator[list[Cell]]:
    """The rows of the capture's own Metadata responses, for comparison."""
    timed = {(one.api, one.side): one for one in study.times}
    for one in study.bodies:
        if (one.api, one.side) == ("Metadata", "response"):
            times = timed.get((one.api, one.side))
            for name in SIZES:
                ratios = [_ratio(of[name]) for of in (times.serialize, times.deserialize)] if times else ["-", "-"]
                yield [f"this capture's answers, {name}", count(one.sizes[name]), _ratio(one.ratio(name)), *ratios]
