"""A collector for tests: an HTTP server on loopback that keeps what it gets, errs, hangs, or hangs up."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from tests.servers import Quiet, serving


class Receiver:
    """What a collector got.

    Attributes:
        url: its address.
        status, headers, body: of its answers; a body comes part by part, until nobody reads it.
        hang: it does not answer until that is set. hangs_up: it closes connections.
        requests: path, headers and body of each request.
    """

    def __init__(self, url: str) -> None:
        self.url, self.status, self.hangs_up = url, 200, False
        self.headers = {"Content-Length": "0"}
        self.body: Iterable[bytes] = ()
        self.hang = threading.Event()
        self.hang.set()
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.got = threading.Condition()

    @property
    def spans(self) -> list[Any]:
        """All spans, in the order in which they came."""
        bodies = [ExportTraceServiceRequest.FromString(body) for path, _, body in self.requests if "traces" in path]
        return [span for body in bodies for of in body.resource_spans for in_ in of.scope_spans for span in in_.spans]

    @property
    def metrics(self) -> set[str]:
        """The names of all metrics."""
        bodies = [ExportMetricsServiceRequest.FromString(body) for path, _, body in self.requests if "metrics" in path]
        scopes = [scope for body in bodies for of in body.resource_metrics for scope in of.scope_metrics]
        return {metric.name for scope in scopes for metric in scope.metrics}

    def wait_for(self, number: int) -> None:
        """Waits until so many requests have come."""
        with self.got:
            assert self.got.wait_for(lambda: len(self.requests) >= number, 60)


def attributes(span: Any) -> dict[str, Any]:
    """A span's attributes as values."""
    return {each.key: _value(each) for each in span.attributes}


def _value(each: KeyValue) -> Any:
    return getattr(each.value, str(each.value.WhichOneof("value")))


@contextmanager
def receiver() -> Iterator[Receiver]:
    """Runs a collector within the block."""

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with found.got:
                found.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
                found.got.notify_all()
            found.hang.wait()
            if found.hangs_up:
                self.close_connection = True
                return
            self.send_response(found.status)
            for name, value in found.headers.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(ConnectionError):
                self.wfile.writelines(found.body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    with serving(server) as port:
        found = Receiver(f"http://127.0.0.1:{port}")
        try:
            yield found
        finally:
            found.hang.set()
