"""The settings of TLS, towards clients and towards brokers. Without its section, a side speaks plaintext."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from proxy.schema.addresses import HOST
from proxy.schema.faults import Fault, Setting
from proxy.schema.keys import Key
from proxy.schema.kinds import PASSWORD, PATH, SWITCH, choice


class Version(StrEnum):
    """Versions of TLS; a setting names the oldest that is spoken."""

    TLS_1_2 = "1.2"
    TLS_1_3 = "1.3"


class Clients(StrEnum):
    """The treatment of clients' certificates: required, optional, or not asked for."""

    REQUIRED = "required"
    OPTIONAL = "optional"


def _given(**files: Path | None) -> dict[str, Path]:
    return {name: path for name, path in files.items() if path is not None}


@dataclass(frozen=True, slots=True)
class ListenerTls:
    """TLS towards clients, on all listeners of a cluster."""

    certificate: Annotated[
        Path,
        Key(
            PATH,
            "certificate",
            "The proxy's certificate and the intermediate ones, PEM. It must be good for every name that clients dial. "
            "Read again when it changes.",
            "/etc/wiretap/proxy.pem",
        ),
    ]
    key: Annotated[
        Path | None,
        Key(PATH, "key", "Its private key, PEM.", "/etc/wiretap/proxy.key", unset="in the file of `certificate`"),
    ] = None
    key_password: Annotated[
        str | None,
        Key(PASSWORD, "key_password", "The password of the private key.", "...", unset="none", secret=True),
    ] = field(default=None, repr=False)
    client_ca: Annotated[
        Path | None,
        Key(
            PATH,
            "client_ca",
            "Clients whose certificates are signed by one of these CAs are let in, PEM.",
            "/etc/wiretap/clients-ca.pem",
            unset="anyone is let in, and nobody is asked for a certificate",
        ),
    ] = None
    clients: Annotated[
        Clients,
        Key(
            choice(Clients),
            "clients",
            "Whether a client must show a certificate. `optional` also lets clients in that show none.",
            "optional",
        ),
    ] = Clients.REQUIRED
    minimum: Annotated[Version, Key(choice(Version), "minimum", "The oldest version of TLS that is spoken.", "1.3")] = (
        Version.TLS_1_2
    )

    @property
    def files(self) -> dict[str, Path]:
        """The files, by the names of their settings; they are read again when they change."""
        return _given(certificate=self.certificate, key=self.key, client_ca=self.client_ca)

    @property
    def lets_anyone_in(self) -> bool:
        """True if a client needs no certificate."""
        return self.client_ca is None or self.clients is Clients.OPTIONAL

    def wrong(self) -> Iterator[Fault]:
        """A fault for everything that does not fit together."""
        if self.clients is Clients.OPTIONAL and self.client_ca is None:
            wrong = Setting("tls.clients"), f" is {self.clients.value}, but nobody is asked for a certificate"
            yield Fault(wrong, (Setting("tls.client_ca", "/etc/wiretap/clients-ca.pem", is_short=False), " too"))


@dataclass(frozen=True, slots=True)
class UpstreamTls:
    """TLS towards brokers."""

    on: Annotated[
        bool,
        Key(SWITCH, "on", "Whether the proxy speaks TLS to brokers.", True, unset="true where this section stands"),
    ] = True
    ca: Annotated[
        Path | None,
        Key(
            PATH,
            "ca",
            "The CAs that sign brokers' certificates, PEM. Read again when it changes.",
            "/etc/wiretap/brokers-ca.pem",
            unset="those of the system",
        ),
    ] = None
    certificate: Annotated[
        Path | None,
        Key(
            PATH,
            "certificate",
            "The proxy's certificate towards brokers (mTLS), PEM. To brokers, every client is then the one that it "
            "names.",
            "/etc/wiretap/upstream.pem",
            unset="none is shown",
        ),
    ] = None
    key: Annotated[
        Path | None,
        Key(PATH, "key", "Its private key, PEM.", "/etc/wiretap/upstream.key", unset="in the file of `certificate`"),
    ] = None
    key_password: Annotated[
        str | None,
        Key(PASSWORD, "key_password", "The password of the private key.", "...", unset="none", secret=True),
    ] = field(default=None, repr=False)
    server_name: Annotated[
        str | None,
        Key(
            HOST,
            "server_name",
            "The name that the proxy asks brokers for (SNI), and that their certificates must have.",
            "kafka.example.org",
            unset="the host that is dialled",
        ),
    ] = None
    minimum: Annotated[Version, Key(choice(Version), "minimum", "The oldest version of TLS that is spoken.", "1.3")] = (
        Version.TLS_1_2
    )
    any_host: Annotated[
        bool,
        Key(
            SWITCH,
            "insecure_any_host_will_do",
            "Accept a certificate of any host that these CAs have signed. Its owner can then read and change all "
            "traffic.",
            False,
        ),
    ] = False
    anyone_may_use_it: Annotated[
        bool,
        Key(
            SWITCH,
            "anyone_may_use_it",
            "Let clients without a certificate use the proxy's. This must be set if a listener lets anyone in and "
            "`certificate` is set.",
            False,
        ),
    ] = False

    @property
    def files(self) -> dict[str, Path]:
        """The files, by the names of their settings; they are read again when they change."""
        return _given(certificate=self.certificate, key=self.key, ca=self.ca)

    def wrong(self) -> Iterator[Fault]:
        """A fault for everything that does not fit together."""
        if self.key is not None and self.certificate is None:
            right = Setting("tls.upstream.certificate", "/etc/wiretap/upstream.pem", is_short=False)
            yield Fault((Setting("tls.upstream.key"), " has no certificate"), right)


def wrong_together(listener: ListenerTls | None, upstream: UpstreamTls | None) -> Iterator[Fault]:
    """Yields a fault for everything that is wrong on either side, or between the two."""
    if listener is not None:
        yield from listener.wrong()
    if upstream is None:
        return
    yield from upstream.wrong()
    anyone = listener is None or listener.lets_anyone_in
    if upstream.certificate is not None and anyone and not upstream.anyone_may_use_it:
        why = " makes brokers see every client as its subject, and the listener lets anyone in"
        closed = Setting("tls.client_ca", is_short=False), " with clients required, or, if that is meant, "
        meant = Setting("tls.upstream.anyone_may_use_it", True, is_short=False)
        yield Fault((Setting("tls.upstream.certificate"), why), (*closed, meant))
