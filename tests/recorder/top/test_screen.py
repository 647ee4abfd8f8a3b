"""Tests of `top` on a terminal: what is asked, what is shown, that names which peers choose stay text."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Static, Tabs

from proxy.schema.addresses import Address
from proxy.terminal import printable
from recorder.top.client import Json, NoAnswer, NodeState, ProxyState, Recording, WrongFilter
from recorder.top.screen import TopApp
from tests.brokers.waiting import PATIENCE
from tests.hostile_text import FORGED, NAME
from tests.recorder.top.test_model import table, told, topic

# each takes a second
pytestmark = pytest.mark.real
Scenario = Callable[[TopApp, Pilot[None]], Awaitable[None]]


class Proxy:
    """Answers as a proxy would; each watch says one thing, and then nothing until the test is over."""

    address = Address("127.0.0.1", 9464)

    def __init__(self, *answers: Json | Exception) -> None:
        self.answers = [*answers]
        self.filters: list[str] = []
        self.over = threading.Event()
        self.lines: list[Json] = []
        self.recording = Recording()

    def watch(self, text: str) -> Iterator[Json]:
        self.filters.append(text)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        yield answer
        self.over.wait()

    def exchanges(self, text: str, limit: int) -> list[Json]:
        return self.lines

    def exchange(self, name: str) -> Json:
        frame = {"kind": "request", "at": "now", "size": 5, "notes": [], "lines": [{"depth": 0, "text": "acks: 1"}]}
        return {"id": name, "head": [["client_id", NAME]], "errors": "", "frames": [frame]}

    def state(self) -> ProxyState:
        return ProxyState({"2": NodeState(False, 0)}, self.recording)


def plays(proxy: Any, scenario: Scenario, size: tuple[int, int] = (120, 30), text: str = "") -> None:
    async def play() -> None:
        app = TopApp(proxy, text)
        try:
            async with app.run_test(size=size) as pilot:
                await scenario(app, pilot)
        finally:
            proxy.over.set()

    asyncio.run(play())


async def until(pilot: Pilot[None], holds: Callable[[], Any]) -> None:
    """Returns once it holds; fails if it does not for long."""
    async with asyncio.timeout(PATIENCE):
        while not holds():
            await pilot.pause(0.01)


def shown(app: TopApp) -> list[list[str]]:
    """The table's cells."""
    table = app.query_one(DataTable)
    return [[str(cell) for cell in table.get_row_at(number)] for number in range(table.row_count)]


def text_of(app: TopApp, name: str) -> str:
    return str(app.query_one(name, Static).render())


@pytest.mark.parametrize("size", [(60, 20), (160, 40)])
def test_names_that_peers_choose_are_text(size: tuple[int, int]) -> None:
    async def scenario(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("2")
        await until(pilot, lambda: shown(app))
        assert shown(app)[0][0] == printable(NAME)
        assert "[red]" in shown(app)[0][0]
        # no line of the screen begins with what follows a line feed in the name
        assert FORGED not in [str(row).strip() for row in app.export_screenshot().splitlines()]

    plays(Proxy(told(1, topics=[topic(NAME, 5)])), scenario, size)


def test_enter_makes_a_row_the_filter_and_an_exchange_is_opened_and_escape_goes_back() -> None:
    line = {"at": "2026-11-21T12:00:00Z", "api": "Produce", "client_id": "a", "latency_ms": 1.5, "error_text": ""}
    names = {"topic": {"names": ["t"], "more": 0}, "group": {"names": [], "more": 0}}
    proxy = Proxy(told(1, topics=[topic("t", 5), topic("u", 9)]))
    proxy.lines = [{**line, **names, "id": "s/1/e2", "sent": 5, "received": 6}]

    async def scenario(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("2")
        await until(pilot, lambda: len(shown(app)) == 2)
        await pilot.press("enter")
        await until(pilot, lambda: proxy.filters[-1] == 'topic == "t"')
        await until(pilot, lambda: shown(app) and shown(app)[0][1] == "Produce")
        await pilot.press("enter")
        await until(pilot, lambda: len(app.screen_stack) == 2)
        assert "acks: 1" in str(app.screen.query_one(Static).render())
        await pilot.press("escape")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        await pilot.press("escape")
        await until(pilot, lambda: proxy.filters[-1] == "")
        assert app.query_one(Tabs).active == "topics"

    plays(proxy, scenario)


def test_a_filter_is_written_and_a_wrong_one_is_pointed_at() -> None:
    proxy = Proxy(told(1), WrongFilter("'=' is no operator: right would be ==", 6), told(1))

    async def scenario(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("slash", *"topic = x", "enter")
        await until(pilot, lambda: "no operator" in text_of(app, "#note"))
        assert text_of(app, "#note").splitlines()[1:] == ["topic = x", "      ^"]
        await pilot.press("slash", "end", *"1", "enter")
        await until(pilot, lambda: proxy.filters[-1] == "topic = x1")
        await until(pilot, lambda: not text_of(app, "#note"))

    plays(proxy, scenario)


def test_a_proxy_that_does_not_answer_is_said_and_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recorder.top.screen._PAUSE", 0.0)
    proxy = Proxy(*[NoAnswer(f"it is gone {NAME}")] * 3, told(1, topics=[topic("t", 5)]))

    async def scenario(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("2")
        await until(pilot, lambda: shown(app))
        assert not text_of(app, "#note")

    plays(proxy, scenario)
    assert len(proxy.filters) == 4


@pytest.mark.parametrize(
    "unreadable",
    [
        {},
        ["no object"],
        told(1) | {"at": "now"},
        told(1) | {"tables": {}},
        told(1, topics=[topic("orders", 1) | {"errors": "many"}]),
    ],
)
def test_what_another_version_tells_is_a_sentence_and_top_goes_on(unreadable: Any) -> None:
    proxy = Proxy(unreadable)

    async def look(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("2")
        await until(pilot, lambda: "can't be read" in str(app.query_one("#note", Static).render()))
        await pilot.press("3", "s", "8")
        assert app.is_running

    plays(proxy, look)


def is_seen(app: TopApp, said: str) -> bool:
    """True if the screen has these words; lines may be folded within."""
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", app.export_screenshot().replace("&#160;", " "))
    return said in " ".join(" ".join(texts).split())


@pytest.mark.parametrize("size", [(60, 20), (160, 40)])
def test_what_is_lost_late_or_left_out_is_seen_at_any_width(size: tuple[int, int]) -> None:
    message = told(1) | {"missed": {"frames": 1234, "times": 2}, "behind": 12}
    message["tables"]["topics"] = table(topic("t", 5), more=1999, forgotten=3)
    proxy = Proxy(message)
    proxy.recording = Recording(2, 3_000_000)

    async def scenario(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("2")
        for said in ("missed 1,234", "dropped 3.0 MB in 2 gaps", "12 s behind", "the first 1 of 2,000 rows"):
            await until(pilot, partial(is_seen, app, said))
        await pilot.press("3")
        await until(pilot, lambda: not app.query_one("#bounds").display)

    plays(proxy, scenario, size)


def test_a_paused_table_stays_and_a_node_that_is_down_is_seen() -> None:
    async def scenario(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("5")
        await until(pilot, lambda: [row[:2] for row in shown(app)] == [["2", "DOWN"]])
        await pilot.press("p")
        assert "PAUSED" in text_of(app, "#totals")
        await pilot.press("1")
        assert [row[:2] for row in shown(app)] == [["2", "DOWN"]]
        await pilot.press("p")
        await until(pilot, lambda: not shown(app))

    plays(Proxy(told(1)), scenario)


def test_order_goes_from_column_to_column_and_round() -> None:
    async def scenario(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("2")
        await until(pilot, lambda: len(shown(app)) == 2)
        # by bytes a second, of which there are none yet; then by errors
        await pilot.press("s")
        await until(pilot, lambda: shown(app)[0][0] == "u")
        await pilot.press("r")
        await until(pilot, lambda: shown(app)[0][0] == "t")

    plays(Proxy(told(1, topics=[topic("t", 5, errors=1), topic("u", 5, errors=2)])), scenario)


def test_a_narrow_terminal_shows_how_to_get_help_and_to_quit_and_no_line_of_help_is_folded() -> None:
    async def scenario(app: TopApp, pilot: Pilot[None]) -> None:
        def keys() -> list[Any]:
            return [*app.query("FooterKey")]

        await until(pilot, keys)
        await pilot.pause()
        seen = {key.description for key in keys() if key.region.right <= app.size.width}
        assert {"help", "quit"} <= seen
        await pilot.press("question_mark")
        await until(pilot, lambda: app.screen.query(Static) and app.screen.query_one(Static).size.height)
        await pilot.pause()
        text = app.screen.query_one(Static)
        assert text.size.height == len(str(text.render()).split("\n"))

    plays(Proxy(told(1)), scenario, (60, 40))
