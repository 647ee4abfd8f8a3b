"""Tests of metrics that are sent to a collector: what the page shows, however page and collector behave."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from recorder.live.otlp import MetricsPusher
from recorder.tracing.collector import Collector
from tests.brokers.waiting import wait_for
from tests.recorder.tracing.receiver import receiver
from tests.servers import Quiet, serving

PAGE = b"# TYPE wiretap_open gauge\nwiretap_open 3\n"
# an end of a page that is not sent
CUT = b"(cut)"


@contextmanager
def page() -> Iterator[tuple[str, list[bytes]]]:
    """A page of metrics: its URL, and its text, which may be changed; it may end early."""
    texts = [PAGE]

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = texts[0]
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.removesuffix(CUT))

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as port:
        yield f"http://127.0.0.1:{port}/metrics", texts


def has_counted(pusher: MetricsPusher, outcome: str, number: int = 1) -> bool:
    return pusher.counts[outcome] >= number


def test_the_page_is_sent_again_and_again_and_what_fails_is_counted() -> None:
    with page() as (url, texts), receiver() as got:
        pusher = MetricsPusher(Collector(got.url, {}), url, every=0.02)
        wait_for(partial(has_counted, pusher, "sent", 2), "two times")
        got.status = 400
        wait_for(partial(has_counted, pusher, "refused"), "a refusal")
        got.status = 200
        texts[0] = b"<html> {"
        wait_for(partial(has_counted, pusher, "unread"), "a page that is none")
        texts[0] = PAGE + CUT
        cut = pusher.counts["unread"]
        wait_for(partial(has_counted, pusher, "unread", cut + 2), "a page that ends early")
        pusher.close()
    assert {path for path, _, _ in got.requests} == {"/v1/metrics"}
    assert got.metrics == {"wiretap_open"}


def test_a_page_that_is_gone_is_counted_and_asked_again() -> None:
    with page() as (url, _):
        pass
    with receiver() as got:
        pusher = MetricsPusher(Collector(got.url, {}), url, every=0.02)
        wait_for(partial(has_counted, pusher, "unread", 2), "two times")
        pusher.close()
        assert not got.requests
