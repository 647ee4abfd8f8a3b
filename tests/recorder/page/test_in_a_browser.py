"""Tests of the page in headless Chromium: a hundred thousand exchanges, hostile names, a lost connection."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from proxy.schema.addresses import Address
from recorder.capture import frames as c
from recorder.page import counts
from recorder.page.api import Source
from recorder.page.recent import Recent
from recorder.page.serving import Access, Server, serve
from recorder.reading.exchanges import Pair
from tests.brokers.ports import Reserved
from tests.hostile_text import TEXT, WORD
from tests.recorder.page.traffic import SESSION, commit, fetch, heartbeat, produce, recent
from tests.recorder.report.browser import Browser, Navigated, Tab

pytestmark = pytest.mark.real

TOKEN = "correct-horse-battery-staple"
ROWS = "[...document.querySelectorAll('#exchanges tbody tr')]"
HOSTILE = [
    TEXT,
    "<img src=x onerror=owned()>",
    "\"'><script>owned()</script>",
    "a\r\nb",
    "x" * 10_000,
    "\u202eevil",
    "!a*b[c]",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as found:
        yield found


def served(kept: Recent, port: int = 0) -> Server:
    source = Source("/captures/demo", lambda: False)
    return serve(kept, source, Access(Address("127.0.0.1", port), TOKEN), print)


def opened(browser: Browser, server: Server, fragment: str = "", **how: Any) -> Tab:
    """The page behind its sign-in, once it shows its exchanges."""
    tab = Tab(browser, f"{server.url}#token={TOKEN}{fragment and '&' + fragment}", **how)
    until(tab, "document.getElementById('end')?.textContent.match(/shown|exchange/)")
    return tab


def until(tab: Tab, condition: str) -> Any:
    """Waits until an expression of the page, or of the next one, is true; returns its value."""
    look = f"const look = () => {{ const found = ({condition}); found ? done(found) : setTimeout(look, 20); }};"
    while True:
        with suppress(Navigated):
            return tab.run(f"new Promise(done => {{ {look} look(); }})")


def filtered(tab: Tab, text: str) -> None:
    """Types a filter and presses Enter."""
    box = "document.getElementById('filter')"
    tab.run(f"{box}.focus(), {box}.value = {json.dumps(text)}")
    press(tab, "Enter")
    until(tab, "!document.getElementById('end').textContent.startsWith('Search')")


def click(tab: Tab, selector: str, *, with_shift: bool = False) -> None:
    """Clicks an element once it is there."""
    until(tab, f"document.querySelector({json.dumps(selector)})")
    event = f"new MouseEvent('click', {{bubbles: true, shiftKey: {json.dumps(with_shift)}}})"
    tab.run(f"document.querySelector({json.dumps(selector)}).dispatchEvent({event})")


def press(tab: Tab, key: str, text: str = "") -> None:
    for kind in ("keyDown", "keyUp"):
        tab.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key, **({"text": text} if text else {}))


def texts(tab: Tab, of: str = "td.client") -> list[str]:
    found: list[str] = tab.run(f"[...document.querySelectorAll('#exchanges tbody {of}')].map(one => one.textContent)")
    return found


def wrong(tab: Tab) -> list[dict[str, Any]]:
    """What the browser complains of, without what it says of every page that signs in."""
    usual = ("401", "Password forms", "NavigationEntryMarkedSkippable")
    return [one for one in tab.complaints if not any(word in str(one) for word in usual)]


@pytest.fixture(scope="module")
def many() -> Recent:
    """A hundred thousand exchanges; each thousandth has an error."""
    kept = recent(most_exchanges=100_000)
    patterns = [kept.with_sides(heartbeat(0, "billing")), kept.with_sides(produce(0, "orders", code=3))]
    for number in range(100_000):
        kept.take(numbered(patterns[number % 1000 == 7], number))
    return kept


def numbered(pair: Pair, number: int) -> Pair:
    request, response = ((row or {}) | {c.EXCHANGE: number} for row in (pair.request, pair.response))
    return pair._replace(request=request, response=response)


def test_a_hundred_thousand_exchanges_are_searched_and_listed_page_by_page(browser: Browser, many: Recent) -> None:
    with served(many) as server:
        tab = opened(browser, server)
        assert tab.run(f"{ROWS}.length") == 100
        until(tab, r"document.getElementById('kept').textContent.replace(/\s/g, '').includes('100000exchangeskept')")
        tab.run("document.getElementById('more').click()")
        until(tab, f"{ROWS}.length === 200")
        filtered(tab, "topic == orders and error")
        until(tab, f"{ROWS}.length === 100 && document.getElementById('end').textContent.includes('100')")
        assert texts(tab, "td.outcome") == ["UNKNOWN_TOPIC_OR_PARTITION"] * 100
        # none passes: all of them are looked at, half a second at a time
        filtered(tab, "topic == nothing")
        until(tab, "document.getElementById('end').textContent.startsWith('No exchange that is kept')")
        assert wrong(tab) == []


def test_the_token_does_not_stay_in_the_address(browser: Browser) -> None:
    with served(recent(heartbeat(1))) as server:
        tab = opened(browser, server, "tab=groups")
        assert tab.run("location.hash") == "#tab=groups"
        assert TOKEN not in tab.run("document.documentElement.outerHTML + document.cookie")
        wrong_token = Tab(browser, f"{server.url}#token={TOKEN[::-1]}")
        # the cookie is there already
        until(wrong_token, "document.getElementById('exchanges')")


def test_a_wrong_token_shows_nothing(browser: Browser) -> None:
    with served(recent(heartbeat(1))) as server:
        tab = Tab(browser, f"{server.url}#token=wrong")
        until(tab, "document.getElementById('said').textContent.includes('not the token')")
        assert tab.run("document.getElementById('exchanges')") is None


def test_a_value_goes_into_the_filter_by_a_click_and_out_of_it_by_the_next(browser: Browser) -> None:
    with served(recent(produce(1, client_id="shop"), heartbeat(2, client_id="my app"))) as server:
        tab = opened(browser, server)
        value = "#exchanges button.value[data-value='{}']"
        click(tab, value.format("my app"))
        assert tab.run("document.getElementById('filter').value") == 'client_id == "my app"'
        until(tab, f"{ROWS}.length === 1")
        assert texts(tab) == ["my app"]
        click(tab, value.format("Heartbeat"))
        assert tab.run("document.querySelectorAll('.chip').length") == 2
        click(tab, ".chip")
        assert tab.run("document.getElementById('filter').value") == "api == Heartbeat"
        click(tab, value.format("Heartbeat"))
        until(tab, f"{ROWS}.length === 2")
        click(tab, value.format("shop"), with_shift=True)
        until(tab, f"{ROWS}.length === 1")
        assert tab.run("document.getElementById('filter').value") == "client_id != shop"


def test_a_wrong_filter_shows_the_place_and_words_are_completed(browser: Browser) -> None:
    with served(recent(heartbeat(1))) as server:
        tab = opened(browser, server)
        filtered(tab, "api == Fetch and topc == x")
        assert until(tab, "document.querySelector('#filter-error:not([hidden]) mark')?.textContent") == "topc"
        assert "did you mean topic?" in tab.run("document.getElementById('filter-error').textContent")
        box = "document.getElementById('filter')"
        tab.run(f"{box}.focus(), {box}.value = 'api == Heartb', {box}.dispatchEvent(new Event('input'))")
        until(tab, "document.querySelectorAll('#words li').length === 1")
        # a word that is still being typed is no error
        assert tab.run("document.getElementById('filter-error').hidden") is True
        press(tab, "Tab")
        assert tab.run(f"{box}.value") == "api == Heartbeat "
        press(tab, "Enter")
        until(tab, f"{ROWS}.length === 1")


def test_a_link_leads_to_an_exchange_with_its_records(browser: Browser) -> None:
    with served(recent(produce(3, value=b"hello"), heartbeat(4))) as server:
        tab = opened(browser, server, f"id={SESSION}/1/e3")
        until(tab, "document.querySelector('#detail .tree')?.textContent.includes(\"'hello'\")")
        assert tab.run("document.querySelector('#exchanges tr[aria-current]').dataset.id") == f"{SESSION}/1/e3"
        value = "document.querySelector('#detail button.value[data-field=topic]')"
        tab.run(f"{value}.click()")
        until(tab, f"{ROWS}.length === 1")
        press(tab, "Escape")
        assert tab.run("document.getElementById('detail').hidden") is True


def test_exchanges_appear_as_they_come_and_wait_while_paused(browser: Browser) -> None:
    kept = recent(heartbeat(1))
    with served(kept) as server:
        tab = opened(browser, server)
        kept.take(heartbeat(2, client_id="second"))
        until(tab, f"{ROWS}.length === 2")
        assert texts(tab) == ["second", "app"]
        press(tab, "p", "p")
        kept.take(heartbeat(3, client_id="third"))
        until(tab, "document.getElementById('news').textContent.includes('1 new exchange while paused')")
        assert len(texts(tab)) == 2
        press(tab, "p", "p")
        until(tab, f"{ROWS}.length === 3")
        assert texts(tab)[0] == "third"


def hide(tab: Tab, *, is_hidden: bool) -> None:
    """Tells the page that nobody sees it, or that somebody does again."""
    value = str(is_hidden).lower()
    tab.run(f"Object.defineProperty(document, 'hidden', {{value: {value}, configurable: true}})")
    tab.run("document.dispatchEvent(new Event('visibilitychange'))")


def test_a_tab_that_nobody_sees_leaves_its_connection_to_others_and_catches_up(browser: Browser) -> None:
    kept = recent(heartbeat(1))
    with served(kept) as server:
        tabs = [opened(browser, server) for _ in range(3)]
        for _ in range(8):
            hide(tabs[0], is_hidden=True)
            tabs.insert(0, opened(browser, server))
        kept.take(heartbeat(2, client_id="second"))
        until(tabs[0], f"{ROWS}.length === 2")
        hide(tabs[1], is_hidden=False)
        until(tabs[1], f"{ROWS}.length === 2")


def test_hostile_names_are_text_everywhere(browser: Browser) -> None:
    pairs = [produce(at, name, code=3, client_id=name, value=name.encode()) for at, name in enumerate(HOSTILE)]
    pairs += [commit(100 + at, name, name, 5) for at, name in enumerate(HOSTILE)]
    pairs += [fetch(200 + at, name, 50, client_id=name) for at, name in enumerate(HOSTILE)]
    kept = recent(*pairs)
    kept.missed(HOSTILE[1], 1)
    with served(kept) as server:
        tab = opened(browser, server, width=1200)
        for view in ("apis", "topics", "groups", "clients", "nodes", "connections", "errors", "exchanges"):
            tab.run(f"document.getElementById('tab-{view}').click()")
            until(tab, "document.querySelector('#sums:not([hidden]) table, #list:not([hidden])')")
            assert tab.run("document.documentElement.scrollWidth") == 1200, view
        for at in range(len(HOSTILE)):
            tab.run(f"location.hash = '#id={SESSION}/1/e{at}'")
            is_own = f"document.querySelector('#detail-title a')?.textContent.endsWith('/e{at}')"
            until(tab, f"{is_own} && document.querySelector('#detail .tree')")
        tab.run("location.hash = ''")
        # each name passes the filter that a click on it makes
        until(tab, "document.getElementById('detail').hidden")
        for at in range(len(HOSTILE)):
            click(tab, "#clear")
            until(tab, f"{ROWS}.length === {3 * len(HOSTILE)}")
            click(tab, f"tr[data-id$='/e{at}'] td.client button")
            until(tab, f"{ROWS}.length > 0 && {ROWS}.length < 5")
            assert tab.run(f"{ROWS}.some(one => one.dataset.id.endsWith('/e{at}'))"), HOSTILE[at][:20]
        click(tab, "#clear")
        until(tab, f"{ROWS}.length === {3 * len(HOSTILE)}")
        page = tab.run("document.body.innerText")
        assert WORD in page
        assert not {"\x1b", "\u202e", "\u200b"} & set(page)
        assert tab.run("document.querySelectorAll('main img, main script, main iframe').length") == 0
        assert wrong(tab) == []
        assert {one.split("/")[2] for one in tab.fetched} == {f"127.0.0.1:{server.port}"}


def test_a_lost_connection_is_said_and_made_again(browser: Browser) -> None:
    kept, place = recent(heartbeat(1)), Reserved("127.0.0.1")
    with served(kept, place.port) as server:
        tab = opened(browser, server)
    until(tab, "document.getElementById('state').textContent.startsWith('Connection lost')")
    kept.take(heartbeat(2, client_id="late"))
    with served(kept, place.port):
        until(tab, "document.getElementById('state').textContent === ''")
        until(tab, f"{ROWS}.length === 2")
        assert texts(tab) == ["late", "app"]
    place.release()


def test_a_page_above_the_limit_says_why_it_is_not_live_and_is_once_there_is_room(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recorder.page.api.MOST_STREAMS", 2)
    kept = recent(heartbeat(1))
    with served(kept) as server:
        first, second = opened(browser, server), opened(browser, server)
        for tab in (first, second):
            # a browser shows one tab at a time
            hide(tab, is_hidden=False)
        kept.take(heartbeat(2))
        for tab in (first, second):
            until(tab, f"{ROWS}.length === 2")
        late = opened(browser, server)
        until(late, "document.getElementById('state').textContent.includes('2 pages follow already')")
        assert "Connection lost" not in late.run("document.getElementById('state').textContent")
        hide(first, is_hidden=True)
        until(late, "document.getElementById('state').textContent === ''")
        kept.take(heartbeat(3))
        until(late, f"{ROWS}.length === 3")


@pytest.mark.parametrize("width", [400, 700, 1000, 1300, 2000])
def test_the_page_is_no_wider_than_its_window(browser: Browser, width: int) -> None:
    kept = recent(*(produce(number, f"topic-with-a-long-name-{number}", code=number % 2 * 3) for number in range(20)))
    kept.take(heartbeat(50, "a-group-with-a-long-name" * 5))
    with served(kept) as server:
        tab = opened(browser, server, width=width)
        assert tab.run("document.documentElement.scrollWidth") == width
        tab.run(f"location.hash = '#id={SESSION}/1/e3'")
        until(tab, "document.querySelector('#detail .tree')")
        assert tab.run("document.documentElement.scrollWidth") == width


def test_all_of_it_is_reached_by_keys(browser: Browser) -> None:
    with served(recent(*map(heartbeat, range(3)))) as server:
        tab = opened(browser, server)
        for _ in range(2):
            press(tab, "j", "j")
        assert tab.run("document.activeElement.dataset.id") == f"{SESSION}/1/e1"
        press(tab, "Enter", "\r")
        until(tab, "document.querySelector('#detail .tree')")
        press(tab, "k", "k")
        until(tab, "document.querySelector('#detail-title a').textContent.endsWith('/e2')")
        press(tab, "Escape")
        assert tab.run("document.getElementById('detail').hidden") is True
        press(tab, "3", "3")
        assert tab.run("document.querySelector('[role=tab][aria-selected=true]').textContent") == "Topics"
        press(tab, "/", "/")
        assert tab.run("document.activeElement.id") == "filter"
        press(tab, "Escape")
        press(tab, "?", "?")
        until(tab, "document.getElementById('help').open && document.querySelectorAll('#fields div').length > 20")


def test_what_a_screen_reader_needs_is_there(browser: Browser) -> None:
    with served(recent(produce(1, code=3))) as server:
        tab = opened(browser, server)
        nameless = (
            "[...document.querySelectorAll('button, a[href], select, textarea, [role=region], [role=tab]')]"
            ".filter(one => one.checkVisibility() && !(one.getAttribute('aria-label') || one.textContent.trim()"
            " || one.labels?.length)).length"
        )
        for view in ("groups", "exchanges"):
            tab.run(f"document.getElementById('tab-{view}').click()")
            assert tab.run(nameless) == 0
        assert tab.run("document.querySelectorAll('[role=status], [role=alert]').length") == 2
        controlled = "document.getElementById(one.getAttribute('aria-controls'))"
        assert tab.run(f"[...document.querySelectorAll('[aria-controls]')].every(one => {controlled})")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_colours_follow_the_readers_choice(browser: Browser, dark: bool) -> None:
    with served(recent(heartbeat(1))) as server:
        ground = opened(browser, server, dark=dark).run("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)")


def test_that_reading_is_behind_and_that_a_table_is_full_is_said(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts, "MOST_LINES", 10)
    kept = recent(*(heartbeat(number, f"group-{number}") for number in range(13)))
    kept.behind = 12.4
    with served(kept) as server:
        tab = opened(browser, server)
        until(tab, "document.getElementById('state').textContent.startsWith('Reading is behind')")
        assert "12 s behind" in tab.run("document.getElementById('kept').textContent")
        click(tab, "#tab-groups")
        note = "[...document.querySelectorAll('#sums .note')].map(one => one.textContent).join()"
        until(tab, f"{note}.includes('The table is full: 3 lines that had been idle longest made room for others.')")
        kept.behind = 0
        until(tab, "!document.getElementById('state').textContent")
