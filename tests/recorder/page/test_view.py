"""Tests of a capture that is read for the page: finished, growing, filtered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from proxy.conversation.exchange import Direction
from recorder.capture import frames as c
from recorder.capture.frames import DamagedFileError
from recorder.capture.remote import Place, place_at
from recorder.capture.session import RecordSettings
from recorder.capture.tap import Tap, open_tap
from recorder.page.view import View
from recorder.query.shorthand import filter_of
from recorder.query.syntax import EVERYTHING
from recorder.reading.capture import Capture, GrowingCapture
from tests.recorder.capture.traffic import Chunk, Player, Talk
from tests.recorder.page.traffic import SESSION, rows_of
from tests.recorder.small_capture import everything, write
from tests.s3 import Store

Ids = list[tuple[int, int]]


def viewed(folder: Place, where: str = "", *, is_growing: bool = False, **how: Any) -> View:
    capture = (GrowingCapture if is_growing else Capture)(folder, [])
    wanted = capture.filter(filter_of({}, where=[where] if where else []))
    return View(capture, wanted, most_bytes=how.pop("most_bytes", 1 << 30))


def ids(view: View) -> Ids:
    found = view.recent.newest(EVERYTHING, 100).found
    return sorted((pair.head[c.CONNECTION], pair.head[c.EXCHANGE]) for _, pair in found)


def test_a_finished_capture_is_read_with_its_bodies_and_exchanges_without_an_end(tmp_path: Path) -> None:
    write(tmp_path, "frames", everything())
    view = viewed(tmp_path)
    assert view.source.state() == "reading the capture"
    view.look()
    expected = {(row[c.CONNECTION], row[c.EXCHANGE]) for row in everything() if row[c.EXCHANGE] is not None}
    assert ids(view) == sorted(expected)
    pair = view.recent.find("20261121T120000Z-abc", 1, 1)
    assert pair is not None
    assert pair.response is not None
    assert pair.response[c.FRAME]
    assert (view.source.state(), view.source.is_live()) == ("", False)


@pytest.mark.real
def test_of_a_bucket_the_page_shows_what_it_shows_of_the_folder(s3: Store, tmp_path: Path) -> None:
    write(tmp_path / "capture", "frames", everything())
    url = s3.put(tmp_path / "capture", "viewed")
    for where in ("", "api == Fetch", "topic == t and error"):
        here, there = viewed(tmp_path / "capture", where), viewed(place_at(url), where)
        here.look()
        there.look()
        assert (there.source.name, there.source.state(), there.source.is_live()) == (url, "", False)
        assert ids(there) == ids(here)
        assert there.recent.counts.lines("topics", 10) == here.recent.counts.lines("topics", 10)
        # nothing comes twice
        there.look()
        assert there.recent.last == here.recent.last
    assert there.recent.find("20261121T120000Z-abc", 1, 2) is None
    found = there.source.find("20261121T120000Z-abc", 1, 2)
    assert found is not None
    assert found.head == here.source.find("20261121T120000Z-abc", 1, 2).head  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "of",
    [
        ("\0", 1, 1),
        ("20261121", 1, 1),
        ("s" * 5000, 1, 1),
        (SESSION, 10**9, 1),
        (SESSION, 1, 2**63 - 1),
    ],
)
def test_an_exchange_that_no_session_has_is_not_looked_for_in_what_files_hold(
    tmp_path: Path, of: tuple[str, int, int]
) -> None:
    write(tmp_path, "frames", everything())
    view = viewed(tmp_path)
    find = view.source.find
    assert find(SESSION, 1, 1) is not None
    for path in tmp_path.rglob("*.parquet"):
        # all but the footer, which names nothing of the kind
        content = path.read_bytes()
        length = int.from_bytes(content[-8:-4], "little") + 8
        path.write_bytes(content[:4] + bytes(len(content) - length - 4) + content[-length:])
    with pytest.raises(DamagedFileError):
        find(SESSION, 1, 1)
    assert find(*of) is None


@pytest.mark.parametrize("where", ["api == Fetch", "error == OFFSET_OUT_OF_RANGE", "key == a"])
def test_a_filter_chooses_what_is_read(tmp_path: Path, where: str) -> None:
    write(tmp_path, "frames", everything())
    view = viewed(tmp_path, where)
    view.look()
    assert ids(view) == {"api": [(1, 1), (1, 3)], "error": [(1, 1)], "key": []}[where.split()[0]]


def test_an_exchange_that_memory_has_no_room_for_is_found_in_the_capture(tmp_path: Path) -> None:
    write(tmp_path, "frames", everything())
    view = viewed(tmp_path, most_bytes=1)
    view.look()
    assert view.recent.held[0] == 0
    found = view.source.find("20261121T120000Z-abc", 1, 1)
    assert found is not None
    assert found.response is not None
    assert found.response[c.FRAME]
    assert view.source.find("20261121T120000Z-abc", 1, 77) is None
    # a session's name may begin as another's does
    assert view.source.find("20261121T120000Z", 1, 1) is None


def test_a_topic_that_has_only_an_id_is_shown_by_its_name(tmp_path: Path) -> None:
    rows = [row for number in range(2) for row in rows_of(number, 12, {"group_id": "g", "member_id": "m"}, {})]
    write(tmp_path, "frames", rows)
    view = viewed(tmp_path)
    view.look()
    assert [line["group"] for line in view.recent.counts.lines("groups", 5)[0]] == ["g"]


@contextmanager
def recording(folder: Path) -> Iterator[tuple[Tap, Player]]:
    tap = open_tap(folder, RecordSettings(), SESSION)
    player = Player(tap)
    try:
        yield tap, player
    finally:
        tap.close()


def test_a_growing_capture_shows_what_is_recorded_meanwhile(tmp_path: Path) -> None:
    with recording(tmp_path) as (tap, player):
        player.open(Talk(1, []))
        view = viewed(tmp_path, is_growing=True)
        assert view.source.is_live()
        for number in range(3):
            request, response = rows_of(number, 12, {"group_id": "g", "member_id": "m"}, {})
            for row, direction in ((request, Direction.REQUEST), (response, Direction.RESPONSE)):
                framed = len(row[c.FRAME]).to_bytes(4, "big") + row[c.FRAME]
                player.play(1, Chunk(direction, framed, row[c.AT_NS]))
            tap.flush()
            view.look()
            assert len(ids(view)) == number + 1
