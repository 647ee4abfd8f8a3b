"""Tests of who may ask: the token, the server's name, the page that asks."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from anyio import sleep_forever

from recorder.page import guard
from recorder.page.api import FILES, Api, Source
from recorder.page.guard import OPEN_FILES, Guard
from tests.recorder.page.traffic import heartbeat, recent

TOKEN = "correct-horse-battery-staple"
BASE = "http://127.0.0.1:8080"


def client(base: str = BASE, token: str = TOKEN, **headers: str) -> httpx.AsyncClient:
    app = Api(recent(heartbeat(1)), Source("a capture", lambda: False)).app()
    secure = base.startswith("https")
    guarded = Guard(app, token, names=["Wiretap.example"], files=FILES, port=8080, is_secure=secure, say=print)
    return httpx.AsyncClient(transport=httpx.ASGITransport(guarded), base_url=base, headers=headers)


PATHS = ["/api/exchanges", "/api/exchange", "/api/sums", "/api/filter", "/api/news", "/main.js", "/style.css", "/x"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("shown", [{}, {"authorization": "Bearer wrong"}, {"cookie": f"kafka-wiretap-8080={TOKEN}"}])
async def test_without_the_token_there_is_a_401_and_nothing_more(path: str, shown: dict[str, str]) -> None:
    async with client(**shown) as asked:
        answer = await asked.get(path)
    assert (answer.status_code, answer.content) == (401, b"")


async def test_the_page_to_sign_in_tells_nothing_of_the_traffic() -> None:
    async with client() as asked:
        answer = await asked.get("/")
        assert answer.status_code == 401
        assert "Token" in answer.text
        for path in OPEN_FILES:
            assert (await asked.get(path)).status_code == 200
        assert (await asked.post("/")).content == b""


async def test_who_signs_in_gets_a_cookie_that_is_not_the_token() -> None:
    async with client() as asked:
        answer = await asked.post("/signin", data={"token": TOKEN})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        cookie = answer.headers["set-cookie"]
        assert TOKEN not in cookie
        assert {"HttpOnly", "Path=/", "SameSite=strict"} <= {part.strip() for part in cookie.split(";")}
        assert (await asked.get("/api/sums")).json()["source"] == "a capture"
        assert "exchanges" in (await asked.get("/")).text


async def test_over_tls_the_cookie_is_for_tls_alone() -> None:
    async with client("https://127.0.0.1:8080") as asked:
        assert "Secure" in (await asked.post("/signin", data={"token": TOKEN})).headers["set-cookie"]


@pytest.mark.parametrize(("token", "status"), [(TOKEN, 200), (TOKEN[::-1], 401)])
async def test_a_cookie_serves_as_long_as_its_token_does(token: str, status: int) -> None:
    async with client() as first, client(token=token) as second:
        await first.post("/signin", data={"token": TOKEN})
        second.cookies.update(first.cookies)
        assert (await second.get("/api/sums")).status_code == status


async def test_a_program_shows_the_token_each_time() -> None:
    async with client(authorization=f"Bearer {TOKEN}") as asked:
        assert (await asked.get("/api/sums")).status_code == 200


@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], TOKEN + "x", "ü", "x" * 100_000])
async def test_a_wrong_token_signs_nobody_in(token: str) -> None:
    async with client() as asked:
        answer = await asked.post("/signin", data={"token": token})
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers


async def test_a_form_that_does_not_end_signs_nobody_in(monkeypatch: pytest.MonkeyPatch) -> None:
    async def content() -> AsyncIterator[bytes]:
        yield f"token={TOKEN}".encode()
        await sleep_forever()

    monkeypatch.setattr(guard, "FORM_SECONDS", 0.01)
    async with client() as asked:
        assert (await asked.post("/signin", content=content())).status_code == 401


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8080", 200),
        ("[::1]:8080", 200),
        ("10.1.2.3", 200),
        ("localhost:9999", 200),
        ("LOCALHOST", 200),
        ("wiretap.example:8080", 200),
        # a name of somebody else's that leads here
        ("evil.example:8080", 421),
        ("wiretap.example.evil.example", 421),
        ("localhost.evil.example:8080", 421),
        ("127.0.0.1.evil.example", 421),
        ("", 421),
        # what other programs may send
        ("127.0.0.1%/signin.js?", 421),
        ("wiretap.example/signin.js?", 421),
        ("[127.0.0.1", 421),
    ],
)
async def test_only_own_names_are_answered(host: str, status: int) -> None:
    async with client(authorization=f"Bearer {TOKEN}", host=host) as asked:
        assert (await asked.get("/api/sums")).status_code == status


@pytest.mark.parametrize(
    ("told", "status"),
    [
        ({"origin": BASE}, 200),
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"sec-fetch-site": "none", "sec-fetch-mode": "navigate"}, 200),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:9999"}, 403),
        ({"origin": "https://127.0.0.1:8080"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
    ],
)
async def test_only_the_page_itself_may_ask(told: dict[str, str], status: int) -> None:
    async with client(authorization=f"Bearer {TOKEN}", **told) as asked:
        assert (await asked.get("/api/sums")).status_code == status


async def test_a_link_from_elsewhere_leads_to_the_page() -> None:
    told = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    async with client(**told) as asked:
        assert (await asked.get("/")).status_code == 401
        assert (await asked.post("/signin", data={"token": TOKEN})).status_code == 403


async def test_every_answer_forbids_what_is_from_elsewhere() -> None:
    async with client() as asked:
        for answer in (await asked.get("/"), await asked.get("/x"), await asked.post("/signin", data={"token": TOKEN})):
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
        answer = await asked.get("/api/sums")
        assert answer.headers["cache-control"] == "no-store"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
