"""Families as text, by prometheus-client's encoders, whose work is kept from scrape to scrape.

An encoder takes most of its time for names and labels, which hardly ever change. So it writes a family once, and its
lines are kept without their values. As long as the family has the same series, only values are written. Samples with
exemplars are written by the encoder each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from typing import Any, NamedTuple

from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

# the type of OpenMetrics, and where its text ends
OPENMETRICS = "application/openmetrics-text"
END = "# EOF\n"
# the lines of HELP and TYPE
_HEAD = 2
Encode = Callable[[Collector], bytes]


class _Known(NamedTuple):
    """A family as it was written. `series`: names and labels; `head`: its first lines; `lines`: up to the values."""

    series: list[tuple[str, dict[str, str]]]
    head: str
    lines: list[str]


class Renderer:
    """Writes families in one format. `encode`: the encoder of prometheus-client. May be called in several threads."""

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self._known: dict[str, _Known] = {}

    def text(self, families: Iterable[Family]) -> bytes:
        """The families as text, without the end of OpenMetrics."""
        return "".join(part for family in families for part in self._written(family)).encode()

    def _written(self, family: Family) -> Iterator[str]:
        series = [(sample.name, sample.labels) for sample in family.samples]
        known = self._known.get(family.name)
        if known is None or known.series != series:
            known = self._known[family.name] = self._learned(family, series)
        yield known.head
        with_exemplars = iter(self._with_exemplars(family))
        for line, sample in zip(known.lines, family.samples, strict=True):
            if sample.exemplar is None:
                yield f"{line}{_shown(sample)}\n"
            else:
                yield next(with_exemplars)

    def _learned(self, family: Family, series: list[tuple[str, dict[str, str]]]) -> _Known:
        plain = [sample._replace(exemplar=None) for sample in family.samples]
        lines = self._lines(family, plain)
        values = map(_shown, plain)
        texts = [line.removesuffix(f"{value}\n") for line, value in zip(lines[_HEAD:], values, strict=True)]
        return _Known(series, "".join(lines[:_HEAD]), texts)

    def _with_exemplars(self, family: Family) -> list[str]:
        samples = [sample for sample in family.samples if sample.exemplar is not None]
        return self._lines(family, samples)[_HEAD:] if samples else []

    def _lines(self, family: Family, samples: Sequence[Sample]) -> list[str]:
        some = copy(family)
        some.samples = [*samples]
        # not `splitlines`: names may hold what that takes for the end of a line
        return [f"{line}\n" for line in self._encode(_One(some)).decode().removesuffix(END).split("\n")[:-1]]


def renderer(*, is_open: bool) -> Renderer:
    """The renderer of OpenMetrics, or of Prometheus' own format. No name needs escapes, so versions don't matter."""
    return Renderer(openmetrics.generate_latest if is_open else generate_latest)


def _shown(sample: Sample) -> str:
    text: str = floatToGoString(sample.value)  # type: ignore[no-untyped-call]
    return text


class _One(Collector):
    def __init__(self, family: Family) -> None:
        self._family = family

    def collect(self) -> Iterable[Any]:
        return [self._family]
