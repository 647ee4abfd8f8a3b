"""OpenSSL's contexts, made of certificate files that may change: each new connection uses their present content.

Before each TLS handshake the files' inodes, times and sizes are compared with those of the last check
(`LiveCredentials` in proxy/net/sockets/tls.py). If changed files can't be used, that is logged once, and the former
context stays. Connections keep the context that they began with.
"""

from __future__ import annotations

import os
import ssl
import stat
import sys
from collections.abc import Callable, Iterator
from functools import partial
from logging import ERROR, INFO
from pathlib import Path
from typing import NamedTuple, TypeVar

from proxy.config import ClusterSettings
from proxy.config.tls import Clients, ListenerTls, UpstreamTls, Version
from proxy.log import log
from proxy.mapping.alone import AloneMap
from proxy.mapping.nodes import NodeMap
from proxy.schema.addresses import undotted
from proxy.schema.errors import BadSetting
from proxy.tls.validity import chain_end

KEY_PASSWORD = "key_password"
# part of the head of an encrypted PEM key: of the label (RFC 7468), or of a line below it (older formats)
_ENCRYPTED = b"ENCRYPTED"
_VERSIONS = {Version.TLS_1_2: ssl.TLSVersion.TLSv1_2, Version.TLS_1_3: ssl.TLSVersion.TLSv1_3}
# X509_V_FLAG_NO_CHECK_TIME of OpenSSL, which Python's ssl does not name
_NO_CHECK_TIME = 0x200000
# inode, time and size of each file; None for a file that is missing or can't be examined
_Signature = tuple[tuple[int, int, int] | None, ...]
_Side = TypeVar("_Side", ListenerTls, UpstreamTls)


class BadCertificate(ValueError):
    """A setting of TLS can't be used. `key`: the setting's name. `path`: the file that it names, if any."""

    def __init__(self, key: str, path: Path | None, reason: str) -> None:
        super().__init__(f'{key} = "{path}" can\'t be used ({reason})' if path else f"{key} {reason}")
        self.key = key


class ServerNameObject(ssl.SSLObject):
    """A client's TLS connection.

    requested_name: the server name that the client has sent (SNI); None: none.
    refusal: why that name is refused, if it is.
    """

    requested_name: str | None = None
    refusal: str = ""


class Credentials:
    """A context that follows its files.

    context: made of the files' content at the last check.
    end: when the first certificate of its chain ends, in seconds since 1970; None: it has no chain, or that can't be
        read.

    Args:
        make: makes a context of the files' present content. Raises BadCertificate.
        certificate: the file of the chain that peers are shown; None: they are shown none.
        paths: all files.
        of: the name of the settings, for the log: "clusters.main.tls".

    Raises:
        BadCertificate: the first context can't be made.
    """

    def __init__(
        self, make: Callable[[], ssl.SSLContext], *paths: Path, certificate: Path | None = None, of: str = ""
    ) -> None:
        self.of = of
        self._make = make
        self._paths = paths
        self._certificate = certificate
        # first, so that a change while the files are read is noticed at the next check
        self._signature = self._sign()
        self.context = make()
        self.end = self._read_end()

    def refresh(self) -> None:
        """Makes the context anew if the files have changed. Blocks, maybe on a disk that hangs."""
        signature = self._sign()
        if signature != self._signature:
            self._signature = signature
            self._renew()

    def _renew(self) -> None:
        try:
            self.context = self._make()
            self.end = self._read_end()
        except BadCertificate as error:
            log(ERROR, "changed certificates can't be used: those from before stay", of=self.of, reason=error)
        else:
            log(INFO, "certificates have changed", of=self.of, files=", ".join(map(str, self._paths)))

    def _read_end(self) -> float | None:
        return None if self._certificate is None else chain_end(self._certificate)

    def _sign(self) -> _Signature:
        return tuple(_signature(path) for path in self._paths)


class Sides(NamedTuple):
    """The credentials towards clients and towards brokers. None: no TLS."""

    listener: Credentials | None
    upstream: Credentials | None


def credentials(cluster: ClusterSettings) -> Sides:
    """Returns the credentials that a cluster's settings name. Blocks.

    Raises:
        BadSetting: with a line for each file of either side that can't be used.
    """
    lines: list[str] = []
    sides = _sides(cluster.name, cluster.tls, cluster.upstream_tls, cluster.node_map, lines)
    if lines:
        raise BadSetting(*lines, cluster=cluster.name)
    return sides


def wrong_files(name: str, tls: ListenerTls | None, upstream_tls: UpstreamTls | None) -> list[str]:
    """Returns a line for each file that a cluster's settings name and that can't be used: a check without a proxy."""
    lines: list[str] = []
    _sides(name, tls, upstream_tls, AloneMap(), lines)
    return lines


def _sides(
    name: str, tls: ListenerTls | None, upstream_tls: UpstreamTls | None, node_map: NodeMap, lines: list[str]
) -> Sides:
    prefix = f"clusters.{name}.tls"
    return Sides(
        _load_side(tls, lambda settings: _listener_context(settings, node_map), prefix, lines),
        _load_side(upstream_tls, upstream_context, f"{prefix}.upstream", lines),
    )


def _load_side(
    settings: _Side | None, make: Callable[[_Side], ssl.SSLContext], prefix: str, lines: list[str]
) -> Credentials | None:
    """Returns the credentials of one side; None: no TLS, or files can't be used. Adds a line for each to `lines`."""
    if settings is None:
        return None
    errors = list(_unreadable(settings))
    if not errors:
        try:
            files = settings.files
            return Credentials(lambda: make(settings), *files.values(), certificate=files.get("certificate"), of=prefix)
        except BadCertificate as error:
            errors.append(error)
    lines += [f"{prefix}.{error}; right would be {_example(prefix, error.key)}" for error in errors]
    return None


def _unreadable(settings: ListenerTls | UpstreamTls) -> Iterator[BadCertificate]:
    """Yields an error for each file that can't be read. Making a context would stop at the first."""
    for name, path in settings.files.items():
        try:
            _check_readable(name, path)
        except BadCertificate as error:
            yield error


def _example(prefix: str, key: str) -> str:
    if key == KEY_PASSWORD:
        return f'the one that the key was encrypted with, {prefix}.{key} = "..."'
    return f'a PEM file of that kind, {prefix}.{key} = "/etc/wiretap/{key}.pem"'


def _listener_context(settings: ListenerTls, node_map: NodeMap) -> ssl.SSLContext:
    context = _context(ssl.PROTOCOL_TLS_SERVER, settings.minimum)
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    _load_chain(context, settings.certificate, settings.key, settings.key_password)
    if settings.client_ca is not None:
        _load_ca(context, settings.client_ca, "client_ca")
        required = settings.clients is Clients.REQUIRED
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    context.sslobject_class = ServerNameObject
    # the callback gets an object of the class in the line above
    context.sni_callback = partial(_on_server_name, node_map)
    return context


def upstream_context(settings: UpstreamTls) -> ssl.SSLContext:
    """Returns a context towards brokers. Blocks. Raises BadCertificate."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT, settings.minimum)
    context.check_hostname = not settings.any_host
    if settings.ca is not None:
        _load_ca(context, settings.ca, "ca")
    else:
        context.load_default_certs()
    if settings.certificate is not None:
        _load_chain(context, settings.certificate, settings.key, settings.key_password)
    return context


def look_only(settings: UpstreamTls) -> Credentials:
    """Credentials that accept a broker's certificate of any host and time: to look at it, never to send anything.

    Its CA is checked, since OpenSSL tells the fields of no other certificate. Blocks. Raises BadCertificate.
    """
    context = upstream_context(settings)
    context.check_hostname = False
    context.verify_flags |= _NO_CHECK_TIME
    return Credentials(lambda: context)


def _context(protocol: int, minimum: Version) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = _VERSIONS[minimum]
    # as brokers do: no renegotiation. The length of compressed TLS would reveal secrets
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    return context


def _on_server_name(
    node_map: NodeMap, tls: ssl.SSLObject | ssl.SSLSocket, name: str | None, context: ssl.SSLContext
) -> int | None:
    """OpenSSL's callback. `name`: the server name that the client sends. Returns the alert for the client, or None."""
    if not isinstance(tls, ServerNameObject):
        return None
    tls.requested_name = None if name is None else undotted(name).lower()
    try:
        node_map.requested_node(None, tls.requested_name)
    except ValueError as error:
        tls.refusal = str(error)
        return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
    return None


def is_bad_server_name(unraisable: sys.UnraisableHookArgs) -> bool:
    """True if Python's unraisable error is that a client's server name is not ASCII.

    Python decodes the name before it calls `_on_server_name`. If that fails, the handshake ends with an alert, and only
    `sys.unraisablehook` gets the error.
    """
    return isinstance(unraisable.object, bytes) and isinstance(unraisable.exc_value, UnicodeDecodeError)


def _load_chain(context: ssl.SSLContext, certificate: Path, key: Path | None, password: str | None) -> None:
    for name, path in (("certificate", certificate), ("key", key)):
        if path is not None:
            _check_readable(name, path)
    try:
        # `_no_password`: OpenSSL would else ask for a password on the terminal
        context.load_cert_chain(certificate, key, password if password is not None else _no_password)
    except (ssl.SSLError, ValueError, OSError) as error:
        if password is not None and _is_of_password(error, key or certificate):
            raise BadCertificate(KEY_PASSWORD, None, f"does not open {key or certificate}") from error
        # OpenSSL does not say which file is at fault; this raises if it is the certificate
        _load_ca(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate, "certificate")
        raise BadCertificate(
            "key" if key is not None else "certificate", key or certificate, reason_of(error)
        ) from error


def _is_of_password(error: Exception, key: Path) -> bool:
    """True if the key could not be decrypted: it is encrypted, and OpenSSL gives no reason for the error."""
    return isinstance(error, ssl.SSLError) and not error.reason and _ENCRYPTED in key.read_bytes()


def _no_password() -> str:
    raise ValueError("it is encrypted, and key_password is not set")


def _load_ca(context: ssl.SSLContext, path: Path, name: str) -> None:
    _check_readable(name, path)
    try:
        context.load_verify_locations(path)
    except (ssl.SSLError, OSError) as error:
        raise BadCertificate(name, path, reason_of(error)) from error


def _check_readable(name: str, path: Path) -> None:
    """Raises BadCertificate if a file can't be read. OpenSSL would not name the file, and would wait on a FIFO."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise BadCertificate(name, path, "it is no regular file")
        path.open("rb").close()
    except OSError as error:
        raise BadCertificate(name, path, error.strerror or str(error)) from error


def _signature(path: Path) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def reason_of(error: Exception) -> str:
    """Returns an error's reason in a few words, without OpenSSL's line numbers."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return str(error.verify_message)
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    if isinstance(error, ssl.SSLError):
        return "OpenSSL can't read it"
    return str(error)
