"""The admin page: /metrics for Prometheus, /livez and /readyz for the program that supervises the proxy.

It is served in threads (`proxy.limited_server`): a scrape takes milliseconds that the event loop lacks.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import choose_encoder, gzip_accepted

from proxy.limited_server import Server, by_first_name, serve, text_page
from proxy.metrics.rendering import END, OPENMETRICS, renderer

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

# returns whether the proxy is well, and a line of text that says why; called in the page's threads
Probe = Callable[[], tuple[bool, str]]


# metrics that another process makes, as text in the format that a header Accept asks for: "" or OPENMETRICS
MoreMetrics = Callable[[str], bytes]


def admin_app(
    registry: CollectorRegistry,
    ready: Probe,
    alive: Probe,
    more: Sequence[MoreMetrics] = (),
    doors: Mapping[str, WSGIApplication] = MappingProxyType({}),
) -> WSGIApplication:
    """Returns the WSGI application of the admin page. Other paths than its three are a 404.

    Args:
        ready: the probe of /readyz: can the proxy serve clients?
        alive: the probe of /livez: does the proxy run at all?
        more: metrics that stand behind those of the registry, unless a scrape asks for some names only.
        doors: by the first name of a path, an application that gets the rest of it as PATH_INFO.
    """
    metrics = _tolerant(_MetricsPage(registry, more))

    pages: dict[str, WSGIApplication] = {"/metrics": metrics, "/livez": _probed(alive), "/readyz": _probed(ready)}

    def page(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        return pages.get(environ["PATH_INFO"], _not_found)(environ, start)

    return by_first_name(doors, page)


class _MetricsPage:
    """The metrics page: the registry's families, and behind them the texts of other processes.

    Scrapes of some names only (`?name[]=`), and what is no GET, are left to prometheus-client.
    """

    def __init__(self, registry: CollectorRegistry, more: Sequence[MoreMetrics]) -> None:
        self._registry, self._more = registry, more
        self._others: WSGIApplication = make_wsgi_app(registry)
        self._open, self._plain = renderer(is_open=True), renderer(is_open=False)

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] != "GET" or "name[]" in environ.get("QUERY_STRING", ""):
            return self._others(environ, start)
        _, content_type = choose_encoder(environ.get("HTTP_ACCEPT", ""))
        is_open = content_type.startswith(OPENMETRICS)
        # before the registry's, which tell how old they are
        texts = [text(OPENMETRICS if is_open else "") for text in self._more]
        own = (self._open if is_open else self._plain).text(self._registry.collect())
        body = b"".join([own, *texts, END.encode() * is_open])
        headers = [("Content-Type", content_type)]
        if gzip_accepted(environ.get("HTTP_ACCEPT_ENCODING", "")):
            # names repeat: a higher level takes several times as long for little
            body, headers = gzip.compress(body, 1), [*headers, ("Content-Encoding", "gzip")]
        start("200 OK", [*headers, ("Content-Length", str(len(body)))])
        return [body]


def _tolerant(metrics: WSGIApplication) -> WSGIApplication:
    """The metrics page; if prometheus-client can't parse a request's headers, the page without regard to them."""

    def page(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        try:
            return metrics(environ, start)
        except (TypeError, ValueError):
            return metrics({**environ, "HTTP_ACCEPT": "", "HTTP_ACCEPT_ENCODING": "", "QUERY_STRING": ""}, start)

    return page


def _probed(probe: Probe) -> WSGIApplication:
    def page(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        is_well, line = probe()
        return text_page(start, "200 OK" if is_well else "503 Service Unavailable", line)

    return page


def _not_found(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
    return text_page(start, "404 Not Found", "try /metrics, /livez or /readyz")


def serve_admin(app: WSGIApplication, host: str, port: int) -> Server:
    """Serves `app` in threads until `Server.close`. Port 0: any free one. Errors: as of `serve`."""
    return serve(app, (host, port), "admin page")
