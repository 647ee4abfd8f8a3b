"""What the page asks: exchanges, one of them decoded, sums, words of the filter language; and what is new, as a stream.

    GET /                    the page; its files beside it
    GET /api/exchanges       ?filter= &before= &limit=   the newest that pass, the newest first
    GET /api/exchange        ?id=SESSION/CONNECTION/eNUMBER   one with its records
    GET /api/sums            ?seconds=   charts, tables, lag, losses
    GET /api/filter          ?text=   what is wrong with a filter, and what may come next
    GET /api/news            ?filter= &after=   server-sent events: `exchanges`, `missed`, `beat`

All of it is read from `Recent`, in threads. A stream keeps nothing for its browser but the number that it has got to: a
browser that does not read is told afterwards how many it has missed, and is let go if it goes on.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from anyio import CancelScope, create_task_group, current_time, move_on_after, sleep
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from proxy.terminal import printable
from proxy.wire.errors import OverBudget
from recorder.capture.frames import DamagedFileError, UnknownFormatError
from recorder.ids import exchange_in
from recorder.page import shown
from recorder.page.recent import Recent
from recorder.query.fields import FIELDS
from recorder.query.language import FilterError, completions
from recorder.query.syntax import Node
from recorder.reading.exchanges import Pair

FILES = Path(__file__).parent / "static"
# exchanges that one answer holds, by default and at most; that an event holds, so that a browser can draw them
_LIMIT, _MOST, _MOST_NEWS = 100, 500, 100
# seconds: from one look for news to the next; after which a stream says that it is alive; that a browser may not read
_LOOK, _BEAT, _PATIENCE = 0.25, 5.0, 20.0
# streams at a time
MOST_STREAMS = 16
# steps of a chart, its seconds by default and at most; lines of a table
_STEPS, _SECONDS, _MOST_SECONDS, _LINES = 120, 300, 3600, 200
_COMPLETIONS = 30
Json = dict[str, Any]


class Source(NamedTuple):
    """What the page shows.

    Attributes:
        name: what it is, in words.
        is_live: exchanges are of now, and come as they end; otherwise charts end with the newest exchange.
        state: what is being done, in a few words; "" if nothing is to be said.
        find: an exchange that is not in memory any more, by its id (session, connection, exchange); None if it is gone.
    """

    name: str
    is_live: Callable[[], bool]
    state: Callable[[], str] = lambda: ""
    find: Callable[[str, int, int], Pair | None] = lambda session, connection, exchange: None


class _Wrong(Exception):
    """A question that can't be answered. `told`: the answer's JSON."""

    def __init__(self, told: Json, status: int = 400) -> None:
        super().__init__(told)
        self.told, self.status = told, status


class Api:
    """Answers the page's questions.

    Attributes:
        asked_at: when the last one came, as of `time.monotonic()`.
        is_closing: True ends all streams.
    """

    def __init__(self, recent: Recent, source: Source) -> None:
        self._recent, self._source = recent, source
        self._streams = 0
        self.is_closing = False
        self.asked_at = -float("inf")

    def app(self) -> Starlette:
        """The application, which lets everybody in: `guard.Guard` does not."""
        routes = [
            Route("/api/exchanges", self._answered(self._exchanges)),
            Route("/api/exchange", self._answered(self._exchange)),
            Route("/api/sums", self._answered(self._sums)),
            Route("/api/filter", self._answered(self._filter)),
            Route("/api/news", self._news),
            Mount("/", StaticFiles(directory=FILES, html=True)),
        ]
        return Starlette(routes=routes)

    def _answered(self, answer: Callable[[Request], Json]) -> Callable[[Request], Any]:
        async def route(request: Request) -> Response:
            self.asked_at = time.monotonic()
            try:
                return JSONResponse(await run_sync(answer, request))
            except _Wrong as wrong:
                return JSONResponse(wrong.told, wrong.status)

        return route

    def _exchanges(self, request: Request) -> Json:
        node = self._node(request)
        limit, before = _number(request, "limit", _LIMIT, most=_MOST), _number(request, "before", None)
        last = self._recent.last
        found = self._recent.newest(node, limit or 1, before=before)
        unsure = sum(found.unsure.unread.values()) + found.unsure.normal
        return {
            "exchanges": [self._line(number, pair) for number, pair in found.found],
            "next": found.next,
            "last": last,
            "unsure": unsure,
        }

    def _line(self, number: int, pair: Pair) -> Json:
        return shown.line(number, pair, self._recent.head(pair), self._recent.elements(pair))

    def _exchange(self, request: Request) -> Json:
        try:
            place = exchange_in(request.query_params.get("id", ""))
        except ValueError as error:
            raise _Wrong({"error": str(error)}) from None
        try:
            pair = self._recent.find(*place) or self._source.find(*place)
        except (OSError, OverBudget, DamagedFileError, UnknownFormatError) as error:
            raise _Wrong({"error": f"the capture can't be read: {printable(error)}"}, 404) from error
        if pair is None:
            raise _Wrong({"error": "this exchange is not kept here any more, or never was"}, 404)
        pair = self._recent.with_sides(pair)
        return shown.whole(pair, self._recent.head(pair), self._recent.elements(pair))

    def _sums(self, request: Request) -> Json:
        seconds = _number(request, "seconds", _SECONDS, most=_MOST_SECONDS) or _SECONDS
        recent = self._recent
        until_ns = time.time_ns() if self._source.is_live() else recent.series.last_ns
        exchanges, size = recent.held
        return {
            "source": self._source.name,
            "is_live": self._source.is_live(),
            "state": self._source.state(),
            "kept": {"exchanges": exchanges, "bytes": size, "taken": recent.last + 1},
            "missed": recent.losses,
            "behind": recent.behind,
            "steps": [step._asdict() for step in recent.series.steps(seconds, _STEPS, until_ns)],
            "tables": shown.tables(recent.counts, until_ns, _LINES),
        }

    def _filter(self, request: Request) -> Json:
        text, begun = request.query_params.get("text", ""), request.query_params.get("begun")
        told: Json = {} if begun is None else {"completions": completions(begun)[:_COMPLETIONS]}
        try:
            self._node(request, "text")
        except _Wrong as wrong:
            return told | wrong.told
        return told | ({} if text else {"fields": {name: field.meaning for name, field in FIELDS.items()}})

    def _node(self, request: Request, name: str = "filter") -> Node:
        """The filter of a question. Errors: _Wrong, with the place in its text."""
        text = request.query_params.get(name, "")
        try:
            return self._recent.node(text)
        except FilterError as error:
            raise _Wrong({"error": error.sentence, "at": error.at}) from None

    async def _news(self, request: Request) -> Any:
        try:
            node = await run_sync(self._node, request)
        except _Wrong as wrong:
            return JSONResponse(wrong.told, wrong.status)
        if self._streams >= MOST_STREAMS:
            return JSONResponse({"error": f"{MOST_STREAMS} pages follow already, and no more can"}, 503)
        # a browser that comes again says what it has seen
        seen = request.headers.get("last-event-id", request.query_params.get("after", ""))
        last = self._recent.last
        after = int(seen) if seen.isascii() and seen.isdigit() and len(seen) < 17 else last
        return _Stream(self, self._news_of(node, min(after, last)))

    async def _news_of(self, node: Node, last: int) -> AsyncIterator[str]:
        """Events, each with the number that it has got to."""
        said = current_time()
        while not self.is_closing:
            self.asked_at = time.monotonic()
            last, events = await run_sync(self._events, node, last)
            if not events and current_time() - said > _BEAT:
                events = [_event("beat", last, {})]
            for event in events:
                said = current_time()
                yield event
            await sleep(_LOOK)

    def _events(self, node: Node, last: int) -> tuple[int, list[str]]:
        """The number up to which there is nothing new any more, and events that tell what was."""
        news = self._recent.after(node, last, limit=_MOST_NEWS)
        lines = [self._line(number, pair) for number, pair in news.found]
        events = [_event("missed", news.last, {"exchanges": news.passed_over})] if news.passed_over else []
        return news.last, events + ([_event("exchanges", news.last, lines)] if lines else [])

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """Counts a stream within the block."""
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1


class _Stream(Response):
    """Server-sent events to one browser, which is let go if it reads nothing for _PATIENCE seconds."""

    def __init__(self, api: Api, events: AsyncIterator[str]) -> None:
        super().__init__(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        del self.headers["content-length"]
        self._api, self._events = api, events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._api.streaming():
            async with create_task_group() as tasks:
                tasks.start_soon(_cancel_when_gone, receive, tasks.cancel_scope)
                await self._send_all(send)
                tasks.cancel_scope.cancel()

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async for event in self._events:
            with move_on_after(_PATIENCE) as sending:
                await send({"type": "http.response.body", "body": event.encode(), "more_body": True})
            if sending.cancelled_caught:
                return
        await send({"type": "http.response.body", "body": b""})


async def _cancel_when_gone(receive: Receive, scope: CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def _event(name: str, number: int, told: Any) -> str:
    return f"event: {name}\nid: {number}\ndata: {json.dumps(told)}\n\n"


def _number(request: Request, name: str, default: int | None, *, most: int = 1 << 53) -> int | None:
    text = request.query_params.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 17):
        raise _Wrong({"error": f"{name} is no number"})
    return min(int(text), most)
