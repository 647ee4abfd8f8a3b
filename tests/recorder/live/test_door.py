"""Tests of the door: without the token nobody gets anything, nor does a page of a browser."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from proxy.limited_server import by_first_name, serve
from recorder.live.door import Door

TOKEN = "0123456789abcdef"
HOST = "127.0.0.1:9464"


def page(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
    start("200 OK", [("Content-Type", "application/json"), ("Set-Cookie", "a=b")])
    return [f"{environ['PATH_INFO']} {environ['QUERY_STRING']}".encode()]


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    with TemporaryDirectory() as folder:
        socket = Path(folder) / "s"
        server = serve(by_first_name({"top": page}), socket, "live server")
        yield Door(socket, file)
        server.close()


def asked(door: Door, **changed: str | None) -> tuple[str, dict[str, str], bytes]:
    environ: dict[str, Any] = {"REQUEST_METHOD": "GET", "PATH_INFO": "/top/watch", "QUERY_STRING": "filter=a"}
    environ |= {"REMOTE_ADDR": "127.0.0.1", "HTTP_HOST": HOST, "HTTP_AUTHORIZATION": f"Bearer {TOKEN}"} | changed
    told: list[Any] = []

    def start(*head: Any) -> Any:
        told.extend(head)

    body = b"".join(door({name: value for name, value in environ.items() if value is not None}, start))
    status, headers = told
    return status, dict(headers), body


def test_who_shows_the_token_is_passed_on_and_is_a_line_of_the_log(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        status, headers, body = asked(door)
    assert (status, body) == ("200 OK", b"/watch filter=a")
    # nothing else comes through
    assert headers == {"Content-Type": "application/json"}
    assert [record.message for record in caplog.records if "watches" in record.message]


# as the admin page has read them from the path of a URL
PATHS = ["/%74op/watch", "/top/watch?filter=b", "/top/watch#x", "/top/w\xe4tch", "/top/watch x"]


@pytest.mark.parametrize("path", PATHS)
def test_a_path_is_read_once_so_nobody_watches_unseen(door: Door, caplog: pytest.LogCaptureFixture, path: str) -> None:
    with caplog.at_level(logging.INFO):
        status, _, body = asked(door, PATH_INFO=path)
    assert not caplog.records
    assert body in (b"there is no such page\n", f"{path.removeprefix('/top')} filter=a".encode())
    assert status[:3] in ("200", "404")


REFUSED: list[tuple[str, dict[str, str | None], str]] = [
    ("no token", {"HTTP_AUTHORIZATION": None}, "401 Unauthorized"),
    ("another token", {"HTTP_AUTHORIZATION": f"Bearer {TOKEN[:-1]}x"}, "401 Unauthorized"),
    ("a longer token", {"HTTP_AUTHORIZATION": f"Bearer {TOKEN}x"}, "401 Unauthorized"),
    ("a token that is no ASCII", {"HTTP_AUTHORIZATION": "Bearer \xe4"}, "401 Unauthorized"),
    ("another scheme", {"HTTP_AUTHORIZATION": f"Basic {TOKEN}"}, "401 Unauthorized"),
    ("from another machine", {"REMOTE_ADDR": "10.1.2.3"}, "403 Forbidden"),
    ("by a name that leads here", {"HTTP_HOST": "evil.example:9464"}, "421 Misdirected Request"),
    ("without a name", {"HTTP_HOST": None}, "421 Misdirected Request"),
    ("by a name with more behind it", {"HTTP_HOST": "127.0.0.1%.evil.example"}, "421 Misdirected Request"),
    ("by a page", {"HTTP_ORIGIN": "http://127.0.0.1:9464"}, "403 Forbidden"),
    ("by a page without an origin", {"HTTP_ORIGIN": "null"}, "403 Forbidden"),
    ("another method", {"REQUEST_METHOD": "POST"}, "403 Forbidden"),
]


@pytest.mark.parametrize(("changed", "status"), [one[1:] for one in REFUSED], ids=[one[0] for one in REFUSED])
def test_everybody_else_gets_a_status_and_nothing_more(door: Door, changed: dict[str, str | None], status: str) -> None:
    assert asked(door, **changed) == (status, {"Content-Length": "0"}, b"")


@pytest.mark.parametrize("host", ["localhost:9464", "LOCALHOST", "[::1]:9464", "127.0.0.1"])
def test_names_of_this_machine_are_right(door: Door, host: str) -> None:
    assert asked(door, HTTP_HOST=host)[0] == "200 OK"


def test_nobody_gets_in_while_the_token_cannot_be_read(door: Door, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("short")
    assert asked(door, HTTP_AUTHORIZATION="Bearer short")[0] == "401 Unauthorized"
    (tmp_path / "token").unlink()
    assert asked(door)[0] == "401 Unauthorized"


def test_a_process_that_does_not_answer_is_said_in_a_status(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    assert asked(Door(tmp_path / "nothing", tmp_path / "token"))[0] == "502 Bad Gateway"
