"""The settings of what is read from the traffic beside the proxy: metrics by topic, client and group; who may look."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from proxy.schema.addresses import ADDRESS, COLLECTOR, HOST, Address
from proxy.schema.certificates import wrong_certificate
from proxy.schema.errors import BadSetting
from proxy.schema.faults import Fault
from proxy.schema.keys import Key, wrong_values
from proxy.schema.kinds import COUNT, FILE

_OFF = "not counted"
_OF_PAGE = "live.page", "live.page_certificate", "live.page_key"


@dataclass(frozen=True, slots=True)
class LiveSettings:
    """What a process beside the proxy reads from the traffic. It runs only if a setting here asks for it.

    `topics`, `clients`, `groups`: the most values of the label. `token_file`: holds what `top` and the page must be
    shown. `page`: where it is served. `otlp`: the collector that gets each `otlp_every`-th exchange as a span;
    `otlp_headers`: what it wants to be told.
    """

    topics: Annotated[
        int | None,
        Key(
            COUNT,
            "topics",
            "Metrics by topic, of this many topics at most. Further ones count as `other`.",
            1000,
            unset=_OFF,
        ),
    ] = None
    clients: Annotated[
        int | None,
        Key(
            COUNT,
            "clients",
            "Metrics by client id, and by client software, of this many each at most. Further ones count as `other`.",
            1000,
            unset=_OFF,
        ),
    ] = None
    groups: Annotated[
        int | None,
        Key(
            COUNT,
            "groups",
            "Offsets and lag by group, topic and partition, of this many partitions of groups at most. Beyond that, "
            "the one that was idle longest makes room, which is counted.",
            10_000,
            unset=_OFF,
        ),
    ] = None
    token_file: Annotated[
        Path | None,
        Key(
            FILE,
            "token_file",
            "Who shows the text in this file may look at the traffic with `kafka-wiretap top`, from this machine, by "
            "the address of `metrics`.",
            "/etc/wiretap/token",
            unset="nobody may",
        ),
    ] = None

    page: Annotated[
        Address | None,
        Key(
            ADDRESS,
            "page",
            "Serve the page (docs/page.md) here: exchanges as they pass, in a browser. Needs `token_file`; beyond "
            "loopback also `page_certificate` and `page_key`.",
            "127.0.0.1:9465",
            unset="not served",
        ),
    ] = None
    page_certificate: Annotated[
        Path | None,
        Key(
            FILE,
            "page_certificate",
            "Serve the page by TLS, with the certificates in this file, the server's own first.",
            "/etc/wiretap/page.pem",
            unset="no TLS",
        ),
    ] = None
    page_key: Annotated[
        Path | None,
        Key(FILE, "page_key", "The key of `page_certificate`.", "/etc/wiretap/page.key", unset="no TLS"),
    ] = None
    page_name: Annotated[
        str | None,
        Key(
            HOST,
            "page_name",
            "The host name by which browsers ask for the page, besides IP addresses and localhost.",
            "wiretap.example.com",
            unset="none",
        ),
    ] = None
    otlp: Annotated[
        str | None,
        Key(
            COLLECTOR,
            "otlp",
            "Send exchanges to this collector, as OpenTelemetry spans, and what `metrics` shows (OTLP over HTTP; "
            "`/v1/traces` and `/v1/metrics` are added).",
            "http://collector:4318",
            unset="nothing is sent",
        ),
    ] = None
    otlp_every: Annotated[int, Key(COUNT, "otlp_every", "Each how-many-th exchange is a span.", 1)] = 100
    otlp_headers: Annotated[
        Path | None,
        Key(
            FILE,
            "otlp_headers",
            "A file with headers for the collector, `NAME: VALUE` a line. Only its owner may read it.",
            "/etc/wiretap/otlp",
            unset="none",
        ),
    ] = None

    def __post_init__(self) -> None:
        if wrong := [*wrong_values(self), *self._wrong_page()]:
            raise BadSetting(*wrong)

    def _wrong_page(self) -> Iterator[Fault]:
        """A fault for a page that would have no token, or whose token would pass in clear."""
        if self.page is not None and self.token_file is None:
            yield Fault("live.page needs a token", 'live.token_file = "/etc/wiretap/token"')
        yield from wrong_certificate(self.page, self.page_certificate, self.page_key, named=_OF_PAGE)

    @property
    def is_asked_for(self) -> bool:
        """True if a setting asks for the process."""
        asking = (self.topics, self.clients, self.groups, self.token_file, self.page, self.otlp)
        return any(value is not None for value in asking)
