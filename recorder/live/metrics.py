"""Metrics by topic, client and group: reads tables of frames, and shows the counts as Prometheus reads them.

The text is made here, in this process, because names of thousands of topics take longer to escape than a scrape should
last. It is made in the background while somebody asks for it, so an answer is at hand, and says how old it is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.compute as pc
from prometheus_client.metrics_core import Metric as Family

from proxy.metrics import table
from proxy.metrics.families import family
from proxy.metrics.rendering import OPENMETRICS, renderer
from proxy.threads import start_thread
from proxy.units import MIB
from proxy.wire import keys
from recorder.capture import frames as c
from recorder.capture.fact_maker import BATCH_ROWS, without_parts
from recorder.facts.frame import REQUEST, RESPONSE
from recorder.facts.group_offsets import GROUP_STEPS, OFFSET_APIS
from recorder.facts.rows import UNREAD, Decoder, DecoderIndex, FrameSelector, decoded_together
from recorder.facts.topic_errors import TOPIC_ERROR_FACTS
from recorder.facts.topic_partitions import PARTITION_FACTS
from recorder.group_lag import Standing
from recorder.live.beside_proxy import AGE_HEADER
from recorder.live.consumer import Missed
from recorder.live.lag import LagReader
from recorder.live.traffic import ClientRow, Clients, TopicRow, Topics
from recorder.reading.elements import Told

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

# larger frames are not opened
LARGEST_FRAME = 16 * MIB
# how old a text may be before it is made again, in seconds; and how long after the last question it is made no more
FRESH_SECONDS, ASKED_SECONDS = 5.0, 120.0
# a text that takes less is made for each question
QUICK_SECONDS = 0.05
# rows that nobody speaks of are looked for so often, in seconds
_FORGET_SECONDS = 10.0


def _only(decoder: Decoder, *api_keys: int) -> Decoder:
    """The decoder, of these APIs alone."""
    return replace(decoder, selectors=tuple(FrameSelector(side, api_keys) for side in (REQUEST, RESPONSE)))


_PARTITIONS = _only(PARTITION_FACTS, keys.PRODUCE, keys.FETCH, keys.LIST_OFFSETS)
_OFFSETS = _only(GROUP_STEPS, *OFFSET_APIS)


class Metrics:
    """The counts. `topics`, `clients`, `groups`: the most values of the labels; None: not counted.

    One thread reads frames; any thread may ask for families.
    """

    def __init__(
        self,
        told: Told,
        *,
        topics: int | None = None,
        clients: int | None = None,
        groups: int | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.topics = None if topics is None else Topics(topics, told, clock)
        self.clients = None if clients is None else Clients(clients, told, clock)
        self.groups = None if groups is None else LagReader(groups, told, clock)
        wanted_by = {
            _PARTITIONS: (topics, groups, clients),
            TOPIC_ERROR_FACTS: (topics, clients),
            _OFFSETS: (groups, clients),
        }
        decoders = [decoder for decoder, asked in wanted_by.items() if any(most is not None for most in asked)]
        self._index = DecoderIndex(decoders, for_facts=True)
        self._lock, self._clock = threading.Lock(), clock
        self._missed_frames = self._missed = self._unread = 0
        self._forgot_at = clock()

    def read(self, frames: Any) -> None:
        """Reads a table of frames."""
        with self._lock:
            if self.clients is not None:
                self.clients.read(frames)
            if self._index.decoders:
                self._read_facts(frames)
            if self._clock() - self._forgot_at > _FORGET_SECONDS:
                self._forget_idle()

    def _read_facts(self, frames: Any) -> None:
        small = pc.less_equal(frames[c.SIZE], LARGEST_FRAME)
        self._unread += len(frames) - (pc.sum(small).as_py() or 0)
        batches = map(without_parts, frames.filter(small).to_batches(BATCH_ROWS))
        for decoder, facts in decoded_together(batches, self._index):
            self._unread += len(facts) - facts[UNREAD].null_count
            if self.topics is not None and decoder is not _OFFSETS:
                self.topics.read(facts)
            if self.clients is not None:
                self.clients.read_errors(facts)
            if self.groups is not None and decoder is _PARTITIONS:
                self.groups.read_partitions(facts)
            if self.groups is not None and decoder is _OFFSETS:
                self.groups.read_groups(facts)

    def _forget_idle(self) -> None:
        now = self._forgot_at = self._clock()
        if self.topics is not None:
            self.topics.rows.forget_idle(now)
        if self.clients is not None:
            self.clients.by_id.forget_idle(now)
            self.clients.by_software.forget_idle(now)
        if self.groups is not None:
            self.groups.lag.forget_idle(now)

    def missed(self, missed: Missed) -> None:
        """Counts what the stream has missed."""
        with self._lock:
            self._missed += 1
            self._missed_frames += missed.frames or 0

    def families(
        self, behind: float = 0.0, passed_over: int = 0, forgotten: Mapping[str, int] = MappingProxyType({})
    ) -> list[Family]:
        """All families, with copies of the counts.

        Args:
            behind: how far the stream is behind, in seconds. passed_over: frames of which it made no exchanges.
            forgotten: what `told` has forgotten, by what it is the name of.
        """
        with self._lock:
            return [
                family(table.LIVE_BEHIND, [((), behind)]),
                family(table.LIVE_PASSED_OVER, [((), passed_over)]),
                *self._families(forgotten),
            ]

    def _families(self, forgotten: Mapping[str, int]) -> Iterator[Family]:
        yield family(table.LIVE_MISSED_FRAMES, [((), self._missed_frames)])
        yield family(table.LIVE_GAPS_SEEN, [((), self._missed)])
        yield family(table.LIVE_UNREAD, [((), self._unread)])
        overflow = dict(forgotten)
        if self.topics is not None:
            overflow["topic"] = self.topics.rows.overflow
            yield from _of_topics(self.topics)
        if self.clients is not None:
            overflow["client_id"], overflow["software"] = (
                self.clients.by_id.overflow,
                self.clients.by_software.overflow,
            )
            yield from _of_clients(_CLIENTS, self.clients.by_id.rows.items())
            yield _of_errors(table.CLIENT_ERRORS, self.clients.by_id.rows)
            yield from _of_clients(_SOFTWARE, self.clients.by_software.rows.items())
        if self.groups is not None:
            overflow |= self.groups.forgotten
            yield from _of_groups(self.groups)
        yield family(table.LABEL_OVERFLOW, (((label,), count) for label, count in overflow.items()))


_TOPICS = (
    (table.TOPIC_PRODUCED_BYTES, "produced_bytes"),
    (table.TOPIC_PRODUCED_RECORDS, "produced_records"),
    (table.TOPIC_FETCHED_BYTES, "fetched_bytes"),
    (table.TOPIC_FETCHED_RECORDS, "fetched_records"),
)
_CLIENTS = (
    (table.CLIENT_REQUESTS, "requests"),
    (table.CLIENT_REQUEST_BYTES, "request_bytes"),
    (table.CLIENT_RESPONSE_BYTES, "response_bytes"),
)
_SOFTWARE = (
    (table.SOFTWARE_REQUESTS, "requests"),
    (table.SOFTWARE_REQUEST_BYTES, "request_bytes"),
    (table.SOFTWARE_RESPONSE_BYTES, "response_bytes"),
)


def _of_topics(topics: Topics) -> Iterator[Family]:
    rows = topics.rows.rows
    for metric, name in _TOPICS:
        yield family(metric, ((labels, getattr(row, name)) for labels, row in rows.items()))
    yield _of_errors(table.TOPIC_ERRORS, rows)


def _of_errors(metric: table.Metric, rows: Mapping[Any, TopicRow | ClientRow]) -> Family:
    counts = (((*labels, *error), count) for labels, row in rows.items() for error, count in row.errors.items())
    return family(metric, counts)


def _of_clients(
    metrics: Iterable[tuple[table.Metric, str]], rows: Iterable[tuple[Sequence[str], ClientRow]]
) -> Iterator[Family]:
    kept = [*rows]
    for metric, name in metrics:
        yield family(metric, ((labels, getattr(row, name)) for labels, row in kept))


def _of_groups(reader: LagReader) -> Iterator[Family]:
    seen_ends = ((place, seen) for place, seen in reader.lag.ends.items() if seen.is_known)
    ends = [((one.cluster, one.topic, str(one.number)), seen) for one, seen in seen_ends]
    yield family(table.LOG_END, ((labels, seen.offset) for labels, seen in ends))
    yield family(table.LOG_END_TIME, ((labels, seen.at) for labels, seen in ends))
    standings = [(_labels(one), one) for one in reader.standings()]
    yield family(table.COMMITTED, ((labels, one.committed.offset) for labels, one in standings))
    yield family(table.COMMITTED_TIME, ((labels, one.committed.at) for labels, one in standings))
    yield family(table.GROUP_LAG, ((labels, one.lag) for labels, one in standings if one.lag is not None))
    states = (((*labels, one.state.value), 1) for labels, one in standings if one.state is not None)
    yield family(table.GROUP_STATE, states)


def _labels(one: Standing) -> tuple[str, str, str, str]:
    group, (cluster, topic, number) = one.place
    return cluster, group, topic, str(number)


def of_spans(counts: Mapping[str, int]) -> Family:
    """The family of spans that are sent to a collector. `counts`: by outcome."""
    return family(table.LIVE_SPANS, (((outcome,), number) for outcome, number in counts.items()))


def of_pushes(counts: Mapping[str, int]) -> Family:
    """The family of metrics that are sent to a collector. `counts`: how often, by outcome."""
    return family(table.LIVE_PUSHES, (((outcome,), number) for outcome, number in counts.items()))


class _Text(NamedTuple):
    """A text, when it was made and how long that took, in seconds."""

    text: bytes
    at: float
    took: float


class Page:
    """Answers with the text of the metrics. WSGI; called in several threads.

    A text that is made quickly is made for each question. Otherwise it is made anew in the background, again and again
    while somebody asks. AGE_HEADER tells how old it is, in seconds.

    `families`: makes the families.
    """

    def __init__(self, families: Callable[[], Iterable[Family]], clock: Callable[[], float] = time.monotonic) -> None:
        self._families, self._clock = families, clock
        # by format: the newest text, and when it was asked for
        self._made: dict[str, _Text] = {}
        self._asked_at: dict[str, float] = {}
        self._renderers = {accept: renderer(is_open=accept == OPENMETRICS) for accept in ("", OPENMETRICS)}
        self._lock = threading.Lock()
        self._maker: threading.Thread | None = None

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        made = self._text(OPENMETRICS if environ.get("HTTP_ACCEPT") == OPENMETRICS else "")
        age = f"{max(self._clock() - made.at, 0):.3f}"
        start("200 OK", [("Content-Type", "text/plain"), (AGE_HEADER, age), ("Content-Length", str(len(made.text)))])
        return [made.text]

    def _text(self, accept: str) -> _Text:
        with self._lock:
            self._asked_at[accept] = self._clock()
            made = self._made.get(accept)
            if made is None or made.took < QUICK_SECONDS:
                return self._make(accept)
            if self._maker is None or not self._maker.is_alive():
                self._maker = start_thread(self._keep_making, "metrics")
            return made

    def _make(self, accept: str) -> _Text:
        begun = self._clock()
        text = self._renderers[accept].text(self._families())
        made = self._made[accept] = _Text(text, begun, self._clock() - begun)
        return made

    def _keep_making(self) -> None:
        while asked := [accept for accept, at in self._asked_at.items() if self._clock() - at < ASKED_SECONDS]:
            for accept in asked:
                self._make(accept)
            time.sleep(FRESH_SECONDS)
