"""Tests of pages in a browser: no errors, no network, any width; tables can be sorted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recorder.analysis.change.whole import changes
from recorder.analysis.summary.bounds import Top
from recorder.analysis.summary.sections.traffic import Traffic, TrafficOfApi
from recorder.analysis.summary.whole import Summary
from recorder.report.capture import html
from recorder.report.changes import html as compared_html
from recorder.report.replay import html as replay_html
from tests.recorder.replay import some_results as results
from tests.recorder.report import some_sides as sides
from tests.recorder.report import some_summaries as summaries
from tests.recorder.report.browser import Browser, Tab

pytestmark = pytest.mark.real

NAMES = ["lively", "quiet", "nothing", "judged_nowhere", "hostile"]
ROWS = "[...document.querySelectorAll('#latency table.sorts')[0].tBodies[0].rows].map(row => row.cells[{at}].innerText)"
TITLES = "document.querySelectorAll('#latency table.sorts')[0].tHead.rows[0].cells"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as found:
        yield found


@pytest.fixture(scope="module")
def lively(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("page"), html(summaries.lively()))


def written(folder: Path, page: str) -> Path:
    file = folder / "report.html"
    file.write_text(page, encoding="utf-8")
    return file


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_opened_without_a_complaint_and_asks_nothing_of_the_network(
    browser: Browser, tmp_path: Path, name: str
) -> None:
    tab = Tab(browser, written(tmp_path, html(getattr(summaries, name)())))
    assert (tab.complaints, tab.fetched) == ([], [])
    assert tab.run("document.querySelectorAll('h2').length") == 14


def test_a_replay_page_opens_without_complaints_or_requests(browser: Browser, tmp_path: Path) -> None:
    tab = Tab(browser, written(tmp_path, replay_html(results.hostile(), "report.html")))
    assert (tab.complaints, tab.fetched) == ([], [])


@pytest.mark.parametrize("both", [(sides.monday, sides.tuesday), (sides.hostile, sides.nothing)], ids=["real", "odd"])
def test_a_comparison_page_opens_without_complaints_or_requests(browser: Browser, tmp_path: Path, both: Any) -> None:
    page = written(tmp_path, compared_html(changes(both[0](), both[1]())))
    tab = Tab(browser, page, width=360)
    assert (tab.complaints, tab.fetched) == ([], [])
    assert tab.run("document.documentElement.scrollWidth") == 360


def test_a_foreign_script_would_be_refused_and_seen(browser: Browser, tmp_path: Path) -> None:
    """This test shows that the other tests would notice it."""
    page = html(summaries.nothing()).replace("</main>", "<script>document.title = 'owned'</script><img src=x></main>")
    tab = Tab(browser, written(tmp_path, page))
    assert tab.run("document.title") != "owned"
    assert tab.complaints


@pytest.mark.parametrize("name", ["lively", "hostile"])
def test_no_page_is_wider_than_its_window(browser: Browser, tmp_path: Path, name: str) -> None:
    page = written(tmp_path, html(getattr(summaries, name)()))
    widths = (380, 700, 1000, 1600)
    found = [Tab(browser, page, width=width).run("document.documentElement.scrollWidth") for width in widths]
    assert found == [*widths]


def test_a_narrow_column_breaks_a_long_name_between_its_parts(browser: Browser, tmp_path: Path) -> None:
    row = TrafficOfApi("DescribeShareGroupOffsets", 1_000_000, 1_000_000, 1_000_000)
    page = written(tmp_path, html(Summary(traffic=Traffic(apis=Top((row,))))))
    cell = "document.querySelector('#traffic td.name')"
    lines = (
        f"[...{cell}.childNodes].filter(one => one.data).map(one => (range => {{ range.selectNode(one); "
        "return range.getClientRects().length })(document.createRange()))"
    )
    tab = Tab(browser, page, width=380)
    assert tab.run(lines) == [1, 1, 1, 1]
    assert tab.run(f"{cell}.offsetHeight") > 2 * tab.run("parseFloat(getComputedStyle(document.body).fontSize)")


WIDER = "[...document.querySelectorAll('.scroll')].find(one => one.scrollWidth > one.clientWidth + 60)"


def edge(tab: Tab, side: str) -> str:
    """The 16 pixels at the left or right edge of the first table that is wider than its window, as PNG."""
    corner = f"(box => [box.left, box.right - 16, box.top + scrollY, box.height])({WIDER}.getBoundingClientRect())"
    left, right, top, height = tab.run(corner)
    clip = {"x": left if side == "left" else right, "y": top, "width": 16, "height": height, "scale": 1}
    return str(tab.ask("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"])


def has_shadow(tab: Tab, side: str) -> bool:
    drawn = edge(tab, side)
    tab.run(f"{WIDER}.style.background = 'none'")
    plain = edge(tab, side)
    tab.run(f"{WIDER}.style.background = ''")
    return drawn != plain


def test_shadows_say_on_which_side_a_table_has_more_columns(browser: Browser, lively: Path) -> None:
    tab = Tab(browser, lively, width=380)
    assert [has_shadow(tab, side) for side in ("left", "right")] == [False, True]
    tab.run(f"{WIDER}.scrollLeft = 30")
    assert [has_shadow(tab, side) for side in ("left", "right")] == [True, True]
    tab.run(f"{WIDER}.scrollLeft = 10000")
    assert [has_shadow(tab, side) for side in ("left", "right")] == [True, False]


@pytest.mark.parametrize(("width", "shown"), [(380, "narrow"), (1000, "wide")], ids=["phone", "screen"])
def test_the_wide_or_the_narrow_drawing_is_shown(browser: Browser, lively: Path, width: int, shown: str) -> None:
    tab = Tab(browser, lively, width=width)
    visible = (
        "[...document.querySelectorAll('.wide, .narrow')].filter(one => one.offsetWidth).map(one => one.className)"
    )
    assert set(tab.run(visible)) == {shown}


def test_letters_of_drawings_can_be_read_in_every_width(browser: Browser, lively: Path) -> None:
    """They are at least 9 pixels high on the screen."""
    heights = "[...document.querySelectorAll('svg text')].map(one => one.getBoundingClientRect().height)"
    smallest = f"Math.min(...{heights}.filter(Boolean))"
    for width in (380, 700, 701, 1000, 1600):
        assert Tab(browser, lively, width=width).run(smallest) >= 9


def click(tab: Tab, at: int) -> list[Any]:
    """Clicks a column's title; returns the column's cells."""
    tab.run(f"{TITLES}[{at}].querySelector('button').click()")
    found: list[Any] = tab.run(ROWS.format(at=at))
    return found


def test_a_click_sorts_by_numbers_and_the_next_one_the_other_way_round(browser: Browser, lively: Path) -> None:
    tab = Tab(browser, lively)
    before = tab.run(ROWS.format(at=1))
    down, up = click(tab, 1), click(tab, 1)
    numbers = [int(text.replace(" ", "")) for text in down]
    assert numbers == sorted((int(text.replace(" ", "")) for text in before), reverse=True)
    assert up == down[::-1]
    assert tab.run(f"{TITLES}[1].getAttribute('aria-sort')") == "ascending"


def test_durations_are_sorted_by_their_length_whatever_their_unit(browser: Browser, lively: Path) -> None:
    found = click(Tab(browser, lively), 2)
    assert found[0] == "3 s"
    assert found[-1] == "400 \N{MICRO SIGN}s"


def test_names_are_sorted_by_their_letters(browser: Browser, lively: Path) -> None:
    found = click(Tab(browser, lively), 0)
    assert found == sorted(found, key=str.lower)


def test_unknown_values_are_sorted_last_in_both_directions(browser: Browser, lively: Path) -> None:
    tab = Tab(browser, lively)
    table = "document.querySelector('#groups table.sorts')"
    lag = tab.run(f"[...{table}.tHead.rows[0].cells].findIndex(cell => cell.innerText.trim().startsWith('lag'))")
    texts = f"[...{table}.tBodies[0].rows].map(row => row.cells[{lag}].innerText)"
    for _ in range(2):
        tab.run(f"{table}.tHead.rows[0].cells[{lag}].querySelector('button').click()")
        assert tab.run(texts)[-1] == "\N{EN DASH}"


def test_without_the_script_a_page_shows_the_same(browser: Browser, lively: Path, tmp_path: Path) -> None:
    page = lively.read_text(encoding="utf-8")
    bare = written(tmp_path, page[: page.index("<script>")] + page[page.index("</script>") :].removeprefix("</script>"))
    with_script, without = Tab(browser, lively), Tab(browser, bare)
    assert with_script.run("document.body.innerText") == without.run("document.body.innerText")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_colours_follow_the_readers_choice(browser: Browser, lively: Path, dark: bool) -> None:
    ground = Tab(browser, lively, dark=dark).run("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(18, 22, 29)" if dark else "rgb(255, 255, 255)")


def test_a_page_can_be_printed(browser: Browser, lively: Path) -> None:
    assert Tab(browser, lively, dark=True).paper().startswith(b"%PDF")
