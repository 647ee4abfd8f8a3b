"""What `kafka-wiretap top` asks the live process: sums of what passes a filter, exchanges, one of them decoded.

    GET /watch?filter=TEXT                  a line of JSON each second, as long as somebody reads: sums since it began
    GET /exchanges?filter=TEXT&limit=N      the newest that pass, newest first
    GET /exchange?id=SESSION/CONNECTION/eN  one with what both of its frames say

Exchanges are made only while somebody watches, and for a while after. Whoever watches has sums of his own, so a slow
reader costs nobody anything: a line is made when the last one was taken.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from proxy.units import MIB
from recorder.ids import exchange_in
from recorder.live.consumer import Missed, Part
from recorder.page import shown
from recorder.page.counts import Counts
from recorder.page.recent import FIELDS_READ, Recent, opens_batches
from recorder.page.series import has_fault
from recorder.query.language import FilterError
from recorder.query.syntax import Node, names
from recorder.reading.elements import Told
from recorder.reading.exchanges import Pair
from recorder.reading.passing import Judge

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

# the newest exchanges that are kept
MOST_EXCHANGES, MEMORY = 10_000, 64 * MIB
# exchanges are made for so long after the last question, in seconds
ASKED_SECONDS = 30.0
# who may watch at a time: each one's filter is asked of each exchange
MOST_WATCHERS = 8
# from one line to the next, in seconds
STEP_SECONDS = 1.0
# lines of a table; exchanges of an answer
_LINES, _MOST = 500, 200
# a server adds to the list that it is given
_JSON = ("Content-Type", "application/json"), ("Cache-Control", "no-store")
Json = dict[str, Any]


class _Watcher:
    """What passes a filter, summed up since it was asked for. One thread adds; another one reads."""

    def __init__(self, node: Node, told: Told) -> None:
        self.counts = Counts(told)
        self.exchanges = self.errors = self.bytes = 0
        self.missed: Counter[str] = Counter()
        self._judge = Judge(node, told, FIELDS_READ)
        self._opens_batches = opens_batches(names(node))

    def take(self, pair: Pair) -> None:
        """Counts an exchange that passes."""
        judge = self._judge
        if self._opens_batches:
            pair = judge.opened(pair)
        if judge.passes(pair):
            head = judge.head(pair)
            self.counts.add(pair, head, judge.elements(pair))
            self.exchanges += 1
            self.errors += has_fault(pair, head)
            self.bytes += head["size"]


class Top:
    """Answers `top`. A `Consumer`, and a page (WSGI) that is called in several threads."""

    def __init__(self, told: Told, clock: Callable[[], float] = time.monotonic) -> None:
        self._recent = Recent(told, most_bytes=MEMORY, most_exchanges=MOST_EXCHANGES)
        self._told, self._clock = told, clock
        self._watchers: tuple[_Watcher, ...] = ()
        self._behind = 0.0
        self._asked_at = -float("inf")
        self._lock = threading.Lock()

    # the stream

    @property
    def is_asked(self) -> bool:
        """True while somebody watches, and for a while after."""
        return bool(self._watchers) or self._clock() - self._asked_at < ASKED_SECONDS

    def take(self, pair: Pair) -> None:
        """Keeps an exchange, and counts it for each watcher."""
        pair = self._recent.with_sides(pair)
        self._recent.take(pair)
        for watcher in self._watchers:
            watcher.take(pair)

    def missed(self, missed: Missed) -> None:
        """Counts what is missing, for each watcher."""
        for watcher in self._watchers:
            watcher.missed["frames"] += missed.frames or 0
            watcher.missed["times"] += 1

    def is_behind(self, seconds: float) -> None:
        """Keeps it for each line that is told."""
        self._behind = seconds

    def close(self) -> None:
        """Nothing is left to do: whoever watches sees the process end."""

    # the page

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        self._asked_at = self._clock()
        asked = {name: values[-1] for name, values in parse_qs(environ["QUERY_STRING"]).items()}
        answers: Mapping[str, Callable[[dict[str, str]], Json | Iterator[bytes]]] = {
            "/watch": self._watch,
            "/exchanges": self._exchanges,
            "/exchange": self._exchange,
        }
        answer = answers.get(environ["PATH_INFO"])
        if answer is None:
            return _answered(start, "404 Not Found", {"error": "there is no such page"})
        try:
            found = answer(asked)
        except FilterError as error:
            return _answered(start, "400 Bad Request", {"error": error.sentence, "at": error.at})
        except _Busy as error:
            return _answered(start, "503 Service Unavailable", {"error": str(error)})
        except LookupError as error:
            return _answered(start, "404 Not Found", {"error": str(error.args[0])})
        if isinstance(found, dict):
            return _answered(start, "200 OK", found)
        start("200 OK", [*_JSON])
        return found

    def _node(self, asked: Mapping[str, str]) -> Node:
        return self._recent.node(asked.get("filter", ""))

    def _watch(self, asked: Mapping[str, str]) -> Iterator[bytes]:
        watcher = _Watcher(self._node(asked), self._told)
        with self._lock:
            if len(self._watchers) >= MOST_WATCHERS:
                raise _Busy(f"{MOST_WATCHERS} watch already")
            self._watchers = (*self._watchers, watcher)
        return self._lines(watcher)

    def _lines(self, watcher: _Watcher) -> Iterator[bytes]:
        try:
            while True:
                yield json.dumps(_sums(watcher, self._behind, self._clock())).encode() + b"\n"
                time.sleep(STEP_SECONDS)
        finally:
            with self._lock:
                self._watchers = tuple(one for one in self._watchers if one is not watcher)

    def _exchanges(self, asked: Mapping[str, str]) -> Json:
        limit = min(int(asked["limit"][:9]) if asked.get("limit", "").isdecimal() else 50, _MOST)
        found = self._recent.newest(self._node(asked), max(limit, 1)).found
        recent = self._recent
        return {"exchanges": [shown.line(n, pair, recent.head(pair), recent.elements(pair)) for n, pair in found]}

    def _exchange(self, asked: Mapping[str, str]) -> Json:
        try:
            pair = self._recent.find(*exchange_in(asked.get("id", "")))
        except ValueError as error:
            raise LookupError(str(error)) from None
        if pair is None:
            raise LookupError("this exchange is not kept here any more")
        return shown.whole(pair, self._recent.head(pair), self._recent.elements(pair))


class _Busy(Exception):
    """Too many ask."""


def top_part(told: Told) -> Part:
    """What `top` needs of the process."""
    top = Top(told)
    return Part([top], {"top": top})


def _sums(watcher: _Watcher, behind: float, now: float) -> Json:
    return {
        "at": now,
        "exchanges": watcher.exchanges,
        "errors": watcher.errors,
        "bytes": watcher.bytes,
        "missed": dict(watcher.missed),
        "behind": behind,
        "tables": shown.tables(watcher.counts, time.time_ns(), _LINES),
    }


def _answered(start: StartResponse, status: str, told: Json) -> list[bytes]:
    start(status, [*_JSON])
    return [json.dumps(told).encode()]
