"""Tests of the page over the live stream: fed while somebody looks, served by the live process of a real proxy."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer

from proxy.schema.addresses import Address
from recorder.live.consumer import Missed
from recorder.live.feed import FeedSettings, open_feed
from recorder.live.page import page_part
from recorder.live.stream import BoundedTold, Stream
from tests.brokers import children
from tests.brokers.mock import MockCluster
from tests.brokers.waiting import PATIENCE, wait_for
from tests.clients.harness import PROGRAM
from tests.recorder.live.test_stream import played, some

TOKEN = "correct-horse-battery-staple"
HEADERS = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o600)
    return file


def test_exchanges_are_kept_while_somebody_looks_and_losses_are_told(tmp_path: Path, token_file: Path) -> None:
    settings, told, said = FeedSettings(folder=tmp_path / "feed"), BoundedTold(), list[str]()
    part = page_part(Address("127.0.0.1", 0), token_file, None, None, (), told, None, said.append)
    (url,) = re.findall(r"the page is at (\S+)", said[0])
    tap = open_feed(settings)
    stream = Stream(settings.folder, part.consumers, is_feed=True, told=told)
    try:
        played(tap, some(5))
        stream.look()
        (feed,) = part.consumers
        feed.missed(Missed(3, "nobody looks"))
        # nobody has asked: whoever comes now begins with what comes next
        assert ask(url, "sums")["kept"]["exchanges"] == 0
        played(tap, some(7, connection=2))
        stream.look()
        feed.missed(Missed(4, "the stream is behind"))
        feed.is_behind(12.5)
        sums = ask(url, "sums")
        assert sums["behind"] == 12.5
        assert sums["kept"]["exchanges"] == len(some(7, connection=2).calls)
        assert sums["missed"] == {"the stream is behind": 4}
        assert sums["is_live"] is True
    finally:
        tap.close()
        stream.close()
    with pytest.raises(httpx.ConnectError):
        ask(url, "sums")


def ask(url: str, path: str, **parameters: Any) -> Any:
    # on a busy machine the process, which is niced, takes its time
    return httpx.get(f"{url}api/{path}", params=parameters, headers=HEADERS, timeout=PATIENCE).json()


@contextmanager
def proxied(folder: Path, *options: object) -> Iterator[tuple[str, str]]:
    """A proxy before a mock cluster: its address and the page's."""
    log = folder / "proxy.log"
    with MockCluster(1) as upstream:
        where = ("--upstream", upstream.bootstrap, "--listen", "127.0.0.1:0", "--page", "127.0.0.1:0")
        command = [*PROGRAM, "proxy", *map(str, (*where, *options))]
        environment = os.environ | {"KAFKA_WIRETAP_LIVE__TOKEN_FILE": str(folder / "token")}
        running: subprocess.Popen[bytes] = children.spawn(command, output=log, env=environment)
        try:
            found = wait_for(lambda: _addresses(log.read_text()), "the proxy and its page")
            yield found
        finally:
            assert children.stop(running, seconds=PATIENCE) == 0, log.read_text()


def _addresses(text: str) -> tuple[str, str] | None:
    listener, page = re.search(r"listening on (\S+)", text), re.search(r"the page is at (\S+)", text)
    return (listener[1], page[1]) if listener and page else None


@pytest.mark.real
@pytest.mark.parametrize("records", [True, False], ids=["with a capture", "without"])
def test_the_page_of_a_running_proxy_shows_what_passes(tmp_path: Path, token_file: Path, records: bool) -> None:
    with proxied(tmp_path, *(["--record", tmp_path / "capture"] if records else [])) as (address, url):
        assert httpx.get(f"{url}api/sums", timeout=PATIENCE).status_code == 401
        assert ask(url, "sums")["kept"]["exchanges"] == 0
        producer = Producer({"bootstrap.servers": address, "client.id": "shop"})
        missed: dict[str, int] | None = None

        def shown() -> list[Any]:
            nonlocal missed
            found: list[Any] = ask(url, "exchanges", filter="topic == orders and key == 4711")["exchanges"]
            if not found and missed != (missed := ask(url, "sums")["missed"]):
                # on a busy machine the process, which is niced, may be so late that it passes exchanges over
                producer.produce("orders", b"hello", b"4711")
                assert producer.flush(PATIENCE) == 0
            return found

        found = wait_for(shown, "an exchange")
        assert {(one["api"], one["client_id"]) for one in found} == {("Produce", "shop")}
        lines = ask(url, "exchange", id=found[0]["id"])["frames"][0]["lines"]
        assert any("'hello'" in line["text"] for line in lines)
