"""`export --otlp`: a capture's exchanges as spans, batch by batch, to a collector that answers each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proxy.terminal import echo, printable
from recorder import extras
from recorder.export.choosing import chosen
from recorder.export.refused import CantExport, PartlyExported
from recorder.terminal import console, count, measured

if TYPE_CHECKING:
    from recorder.tracing.collector import Collector

# bytes of a frame that is opened for its records' contexts
LARGEST_BODY = 16 << 20


def send_spans(
    folder: str, url: str, headers: Path | None, every: int, filters: tuple[str, ...], since: Any, until: Any
) -> None:
    """Sends each `every`-th exchange of a capture to a collector.

    Errors: CantExport if nothing was sent, PartlyExported; NoCapture, WrongFilter.
    """
    extras.check("otlp")
    from recorder.reading.rows import bodies_up_to
    from recorder.reading.told import told
    from recorder.tracing.spans import Spans

    collector = _collector(url, headers)
    try:
        with chosen(folder, filters, since, until) as (capture, wanted):
            spans = Spans(told(capture.folder, topics=True, software=False, most=capture.budget))
            pairs = islice(capture.exchanges(wanted or "", bodies=bodies_up_to(LARGEST_BODY)), None, None, every)
            sent = _send(collector, url, map(spans.span, pairs))
    finally:
        collector.close()
    echo(f"sent {count(sent, 'span')} to {printable(url)}" if sent else "nothing sent: no exchange passes")


def _collector(url: str, headers: Path | None) -> Collector:
    from recorder.tracing.collector import Collector
    from recorder.tracing.headers import WrongHeaders, headers_in

    try:
        return Collector(url, headers_in(headers) if headers is not None else {})
    except WrongHeaders as error:
        raise CantExport(f"--otlp-headers {printable(headers)} {error}; right would be {error.right}") from None


def _send(collector: Collector, url: str, spans: Iterator[Any]) -> int:
    """Sends all spans; returns how many. Errors: CantExport, PartlyExported."""
    from recorder.tracing.collector import NotTaken
    from recorder.tracing.sender import BATCH

    sent = 0
    with console(stderr=True).status("sending spans ...") as status, measured(lambda: f"({count(sent, 'span')})"):
        while batch := [*islice(spans, BATCH)]:
            try:
                collector.send(batch)
            except NotTaken as error:
                why = f"{printable(url)} did not take them: {error}"
                if not sent:
                    raise CantExport(f"no spans were sent: {why}") from None
                again = "sending again is safe, since spans keep their ids"
                raise PartlyExported(f"{count(sent, 'span')} were sent; of further ones {why}; {again}") from None
            sent += len(batch)
            status.update(f"sending spans: {count(sent)} ...")
    return sent
