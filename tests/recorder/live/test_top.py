"""Tests of what `top` is told: sums of what passes its filter since it began, exchanges, one of them decoded."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from recorder.live.consumer import Missed
from recorder.live.top import ASKED_SECONDS, MOST_WATCHERS, Top
from recorder.reading.elements import Told
from recorder.reading.exchanges import Pair
from tests.recorder.page.traffic import SESSION, heartbeat, produce


class Asking:
    """A `Top` that is told exchanges."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.top = Top(Told(), lambda: self.now)
        self._exchange = 0

    def take(self, make: Callable[..., Pair], *arguments: Any, **head: Any) -> None:
        self._exchange += 1
        self.top.take(make(self._exchange, *arguments, **head))

    def ask(self, path: str, **asked: str) -> tuple[str, Any]:
        heads: list[Any] = []
        body = self.top({"PATH_INFO": path, "QUERY_STRING": urlencode(asked)}, started(heads))
        return heads[0][0], body

    def told(self, path: str, **asked: str) -> tuple[str, Any]:
        status, body = self.ask(path, **asked)
        return status[:3], json.loads(b"".join(body))


def started(heads: list[Any]) -> Any:
    """A `start_response` that keeps status and headers."""

    def start(*head: Any) -> Any:
        heads.append(head)

    return start


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> Asking:
    monkeypatch.setattr("recorder.live.top.time.sleep", lambda seconds: None)
    return Asking()


def lines(body: Iterator[bytes]) -> Iterator[Any]:
    return map(json.loads, body)


def test_sums_are_of_what_passes_the_filter_since_it_was_asked(asking: Asking) -> None:
    asking.take(produce, "before")
    all_of_it, of_one = (lines(asking.ask("/watch", filter=text)[1]) for text in ("", 'topic == "t"'))
    assert next(all_of_it)["exchanges"] == 0
    assert next(of_one)["exchanges"] == 0
    asking.take(produce, "t", code=6, client_id="app")
    asking.take(produce, "u", client_id="other")
    told = next(all_of_it)
    assert (told["exchanges"], told["errors"]) == (2, 1)
    assert {row["topic"]: row["records"] for row in told["tables"]["topics"]["lines"]} == {"t": 1, "u": 1}
    assert {row["client_id"] for row in told["tables"]["clients"]["lines"]} == {"app", "other"}
    assert [row["error"] for row in told["tables"]["errors"]["lines"]] == ["NOT_LEADER_OR_FOLLOWER"]
    assert [row["topic"] for row in next(of_one)["tables"]["topics"]["lines"]] == ["t"]


def test_a_filter_may_ask_for_what_is_in_the_records(asking: Asking) -> None:
    body = lines(asking.ask("/watch", filter='value ~ "*val*"')[1])
    next(body)
    asking.take(produce, "t", value=b"a value")
    asking.take(heartbeat)
    assert next(body)["exchanges"] == 1


def test_exchanges_are_made_while_somebody_watches_and_for_a_while_after(asking: Asking) -> None:
    assert not asking.top.is_asked
    body = asking.ask("/watch")[1]
    next(body)
    asking.now += 10 * ASKED_SECONDS
    assert asking.top.is_asked
    body.close()
    assert not asking.top.is_asked
    asking.told("/exchanges")
    assert asking.top.is_asked


def test_what_is_missed_is_told_to_those_who_watch(asking: Asking) -> None:
    body = lines(asking.ask("/watch")[1])
    next(body)
    asking.top.missed(Missed(7, "a gap"))
    asking.top.missed(Missed(None, "a gap"))
    assert next(body)["missed"] == {"frames": 7, "times": 2}


def test_those_who_watch_are_told_how_far_it_is_behind(asking: Asking) -> None:
    body = lines(asking.ask("/watch")[1])
    asking.top.is_behind(12.5)
    assert next(body)["behind"] == 12.5
    asking.top.is_behind(0)
    assert next(body)["behind"] == 0


def test_the_newest_exchanges_come_first_and_one_is_decoded(asking: Asking) -> None:
    for topic in ("t", "u", "t"):
        asking.take(produce, topic, value=b"a value")
    status, told = asking.told("/exchanges", filter='topic == "t"', limit="1")
    (line,) = told["exchanges"]
    assert (status, line["topic"]["names"], line["id"]) == ("200", ["t"], f"{SESSION}/1/e3")
    assert len(asking.told("/exchanges", limit="9" * 5000)[1]["exchanges"]) == 3
    status, told = asking.told("/exchange", id=line["id"])
    assert any("a value" in each["text"] for each in told["frames"][0]["lines"])


@pytest.mark.parametrize(
    ("path", "asked", "status", "said"),
    [
        ("/watch", {"filter": "topic =="}, "400", "at"),
        ("/exchanges", {"filter": "nothing == 1"}, "400", "at"),
        ("/exchange", {"id": "x"}, "404", "error"),
        ("/exchange", {"id": "s/1/e99"}, "404", "error"),
        ("/other", {}, "404", "error"),
    ],
)
def test_a_wrong_question_gets_a_sentence(
    asking: Asking, path: str, asked: dict[str, str], status: str, said: str
) -> None:
    found, told = asking.told(path, **asked)
    assert found == status
    assert said in told


def test_so_many_may_watch_and_no_more(asking: Asking) -> None:
    watching = [asking.ask("/watch")[1] for _ in range(MOST_WATCHERS)]
    for one in watching:
        next(one)
    assert asking.told("/watch")[0] == "503"
    watching[0].close()
    assert asking.ask("/watch")[0] == "200 OK"


def test_an_answer_has_its_own_head_whatever_a_server_has_added_to_another(asking: Asking) -> None:
    heads: list[Any] = []
    for _ in range(2):
        asking.top({"PATH_INFO": "/watch", "QUERY_STRING": ""}, started(heads))
        heads[-1][1].append(("Content-Length", "17"))
    assert heads[0] == heads[1]
    assert len(heads[0][1]) == 3
