"""Tests of what the page asks: answers as JSON, and news as events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from starlette.types import ASGIApp

from recorder.capture.frames import DamagedFileError
from recorder.page.api import MOST_STREAMS, Api, Source
from recorder.page.recent import Recent
from recorder.page.view import find
from tests.hostile_text import TEXT
from tests.recorder.page.traffic import SESSION, commit, fetch, heartbeat, produce, recent
from tests.recorder.small_capture import everything, write

SOURCE = Source("a capture", lambda: False)


@asynccontextmanager
async def asking(app: ASGIApp) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
        yield client


async def ask(kept: Recent, path: str, source: Source = SOURCE, status: int = 200, **parameters: Any) -> Any:
    async with asking(Api(kept, source).app()) as client:
        answer = await client.get(f"/api/{path}", params=parameters)
    assert answer.status_code == status
    return answer.json()


async def test_exchanges_are_the_newest_that_pass() -> None:
    kept = recent(*(heartbeat(number, "ab"[number % 2]) for number in range(10)))
    told = await ask(kept, "exchanges", filter="group == a", limit=2)
    assert [one["number"] for one in told["exchanges"]] == [8, 6]
    assert (told["next"], told["last"]) == (6, 9)
    told = await ask(kept, "exchanges", filter="group == a", before=told["next"])
    assert [one["number"] for one in told["exchanges"]] == [4, 2, 0]
    assert told["next"] is None


async def test_a_filter_that_cannot_be_read_is_told_with_its_place() -> None:
    told = await ask(recent(), "exchanges", status=400, filter="api == Fetch and topc == x")
    assert "did you mean topic?" in told["error"]
    assert told["at"] == 17


@pytest.mark.parametrize("number", ["-1", "x", "9" * 400, "\u0663"])
async def test_a_number_that_is_none_is_refused(number: str) -> None:
    assert "limit" in (await ask(recent(), "exchanges", status=400, limit=number))["error"]


async def test_an_exchange_is_decoded_by_its_id() -> None:
    told = await ask(recent(produce(3, value=b"hello")), "exchange", id=f"{SESSION}/1/e3")
    assert told["id"] == f"{SESSION}/1/e3"
    assert any("'hello'" in line["text"] for line in told["frames"][0]["lines"])


async def test_an_exchange_that_has_gone_is_looked_for_in_the_capture() -> None:
    gone, asked = produce(3), []

    def find(*id_: Any) -> Any:
        asked.append(id_)
        return gone if id_[2] == 3 else None

    source = SOURCE._replace(find=find)
    assert (await ask(recent(), "exchange", source, id=f"{SESSION}/1/e3"))["id"] == f"{SESSION}/1/e3"
    assert "not kept" in (await ask(recent(), "exchange", source, 404, id=f"{SESSION}/1/e4"))["error"]
    assert asked == [(SESSION, 1, 3), (SESSION, 1, 4)]


async def test_a_capture_that_cannot_be_read_is_a_sentence() -> None:
    def find(*_: Any) -> Any:
        raise DamagedFileError("frames/a.parquet is cut")

    told = await ask(recent(), "exchange", SOURCE._replace(find=find), 404, id=f"{SESSION}/1/e3")
    assert "a.parquet is cut" in told["error"]


@pytest.mark.parametrize("wrong", ["", "a", "a/1/2", "a/b/e3", "a/1/e", "a/1/e3/4", "a/-1/e3", "a/1/e" + "9" * 400])
async def test_what_is_no_id_is_an_error_and_not_a_fault(wrong: str) -> None:
    async with asking(Api(recent(), SOURCE).app()) as client:
        assert (await client.get("/api/exchange", params={"id": wrong})).status_code in (400, 404)


async def test_an_id_whose_numbers_no_capture_can_hold_is_none() -> None:
    for parts in ("{}/e1", "1/e{}"):
        for number, status in ((2**63 - 1, 404), (2**63, 400)):
            await ask(recent(), "exchange", status=status, id=f"{SESSION}/{parts.format(number)}")


async def test_hostile_values_of_any_question_are_answered_and_are_no_fault(tmp_path: Path) -> None:
    write(tmp_path, "frames", everything())
    app = Api(recent(produce(3)), SOURCE._replace(find=find(tmp_path, 1 << 30))).app()
    texts = ["", "\0", "%00/1/e1", "a" * 20_000, TEXT, "(" * 5000, "not " * 61 + "error", "partition == " + "9" * 5000]
    texts += [f"{SESSION}/1/e{2**63 - 1}", f"{SESSION}/1/e{10**19 - 1}", "\0/1/e1", f'value ~ "{"*a" * 2000}"']
    numbers = ["-1", "9" * 16, "9" * 5000, "\u0663", "1e9", "\0", " 1"]
    asked = [(path, name, text) for path, name in _TEXTS for text in texts]
    asked += [(path, name, text) for path, name in _NUMBERS for text in numbers]
    async with asking(app) as client:
        answers = {one: (await client.get(f"/api/{one[0]}", params={one[1]: one[2]})).status_code for one in asked}
    assert [one for one, status in answers.items() if status not in (200, 400, 404)] == []


_TEXTS = [("exchanges", "filter"), ("exchange", "id"), ("filter", "text"), ("filter", "begun")]
_NUMBERS = [("exchanges", "limit"), ("exchanges", "before"), ("sums", "seconds")]


async def test_sums_have_charts_tables_lag_and_losses() -> None:
    kept = recent(commit(1, "billing", "orders", 40), fetch(2, "orders", 100), produce(3, "orders", code=3))
    kept.missed("the log was full", 7)
    told = await ask(kept, "sums", seconds=60)
    assert sum(step["exchanges"] for step in told["steps"]) == pytest.approx(3, rel=0.01)
    assert {name for name, table in told["tables"].items() if table["lines"]} == {
        *("apis", "topics", "groups", "clients", "nodes", "connections", "errors", "lags")
    }
    assert (told["tables"]["lags"]["total"], told["tables"]["lags"]["forgotten"]) == (1, 0)
    (lag,) = told["tables"]["lags"]["lines"]
    assert (lag["group"], lag["topic"], lag["partition"], lag["lag"]) == ("billing", "orders", 0, 60)
    assert (lag["committed"], lag["end"], lag["state"]) == (40, 100, "ok")
    assert told["missed"] == {"the log was full": 7}
    assert told["behind"] == 0
    assert told["kept"]["exchanges"] == 3


async def test_what_may_come_next_in_a_filter_is_told() -> None:
    told = await ask(recent(), "filter", text="api == Fe", begun="api == Fe")
    assert "api == Fetch" in told["completions"]
    assert "error" in await ask(recent(), "filter", text="api ==")
    assert "topic" in (await ask(recent(), "filter"))["fields"]


class Stream:
    """A stream of news: an ASGI call whose peer reads as the test does."""

    def __init__(self, app: ASGIApp, query: str = "", headers: dict[str, str] | None = None) -> None:
        self._app, self._query, self._headers = app, query, headers or {}
        self._send, self._sent = trio.open_memory_channel[Any](0)
        self.gone = trio.Event()
        self.ended = trio.Event()

    async def run(self) -> None:
        scope = {"type": "http", "method": "GET", "path": "/api/news", "query_string": self._query.encode()}
        scope |= {"headers": [(name.encode(), value.encode()) for name, value in self._headers.items()]}

        async def receive() -> Any:
            await self.gone.wait()
            return {"type": "http.disconnect"}

        async with self._send:
            await self._app(scope, receive, self._send.send)
        self.ended.set()

    async def start(self) -> int:
        message = await self._sent.receive()
        status: int = message["status"]
        return status

    async def read_on(self) -> None:
        """Reads to the end: who reads nothing is let go."""
        async for _ in self._sent:
            pass

    async def event(self) -> tuple[str, int, Any]:
        """Its name, its number, its data."""
        text = (await self._sent.receive())["body"].decode()
        name, number, data = (line.partition(": ")[2] for line in text.rstrip("\n").split("\n"))
        return name, int(number), json.loads(data)


@asynccontextmanager
async def news(kept: Recent, query: str = "", **headers: str) -> AsyncIterator[Stream]:
    stream = Stream(Api(kept, SOURCE).app(), query, {name.replace("_", "-"): value for name, value in headers.items()})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stream.run)
        assert await stream.start() == 200
        yield stream
        stream.gone.set()


async def test_news_are_those_that_come_and_pass(autojump_clock: trio.testing.MockClock) -> None:
    kept = recent(heartbeat(0))
    async with news(kept, "filter=group+%3D%3D+a&after=0") as stream:
        kept.take(heartbeat(1, "b"))
        kept.take(heartbeat(2, "a"))
        name, number, found = await stream.event()
    assert (name, number, [one["number"] for one in found]) == ("exchanges", 2, [2])


async def test_a_stream_without_news_says_that_it_lives(autojump_clock: trio.testing.MockClock) -> None:
    async with news(recent()) as stream:
        assert (await stream.event())[0] == "beat"


async def test_who_comes_again_gets_what_it_has_missed(autojump_clock: trio.testing.MockClock) -> None:
    kept = recent(*map(heartbeat, range(10)))
    async with news(kept, "after=0", last_event_id="6") as stream:
        _, number, found = await stream.event()
    assert (number, [one["number"] for one in found]) == (9, [7, 8, 9])


async def test_a_browser_that_did_not_read_is_told_how_many_it_has_missed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    kept = recent(heartbeat(0), most_exchanges=20)
    async with news(kept, "after=0") as stream:
        # nothing is read meanwhile, and nothing is kept for this browser
        for number in range(1, 500):
            kept.take(heartbeat(number))
        name, _, told = await stream.event()
        assert (name, told["exchanges"]) == ("missed", 479)
        assert len((await stream.event())[2]) == 20


async def test_a_browser_that_never_reads_is_let_go(autojump_clock: trio.testing.MockClock) -> None:
    kept = recent(heartbeat(0))
    async with news(kept, "after=0") as stream:
        kept.take(heartbeat(1))
        await stream.ended.wait()


async def test_there_are_only_so_many_streams(autojump_clock: trio.testing.MockClock) -> None:
    app = Api(recent(), SOURCE).app()
    async with trio.open_nursery() as nursery:
        streams = [Stream(app) for _ in range(MOST_STREAMS)]
        for stream in streams:
            nursery.start_soon(stream.run)
            assert await stream.start() == 200
            # the clock runs while threads make answers
            nursery.start_soon(stream.read_on)
        async with asking(app) as client:
            assert (await client.get("/api/news")).status_code == 503
        streams[0].gone.set()
        await streams[0].ended.wait()
        late = Stream(app)
        nursery.start_soon(late.run)
        assert await late.start() == 200
        nursery.start_soon(late.read_on)
        for stream in (*streams, late):
            stream.gone.set()
