"""OpenSSL's contexts, made of files that may change: each new connection uses their present content.

The files' inodes, times and sizes are compared for each connection that begins (`LiveCredentials` in
proxy/net/sockets/tls.py). Files that can't be used are logged once, and the former context stays; connections keep the
context that they began with.
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
from proxy.schema.errors import BadSetting

KEY_PASSWORD = "key_password"
# stands in the head of an encrypted key in PEM: in the label (RFC 7468), or in a line of its own (older formats)
_ENCRYPTED = b"ENCRYPTED"
_VERSIONS = {Version.TLS_1_2: ssl.TLSVersion.TLSv1_2, Version.TLS_1_3: ssl.TLSVersion.TLSv1_3}
# inode, time and size of each file; None for a missing file
_Signature = tuple[tuple[int, int, int] | None, ...]
_Side = TypeVar("_Side", ListenerTls, UpstreamTls)


class BadCertificate(ValueError):
    """A setting of TLS can't be used. `key`: the setting's name; `path`: the file that it names, if it names one."""

    def __init__(self, key: str, path: Path | None, reason: str) -> None:
        super().__init__(f'{key} = "{path}" can\'t be used ({reason})' if path else f"{key} {reason}")
        self.key = key


class ServerNameObject(ssl.SSLObject):
    """`asked_for`: the server name that a client has asked for (SNI). `refusal`: why that name is refused."""

    asked_for: str | None = None
    refusal: str = ""


class Credentials:
    """A context that follows its files. `of`: the settings' name, for the log: "clusters.main.tls".

    context: made of the files' content as last checked.

    Raises:
        BadCertificate: no context can be made at the start.
    """

    def __init__(self, make: Callable[[], ssl.SSLContext], *paths: Path, of: str = "") -> None:
        self.of = of
        self._make = make
        self._paths = paths
        # before the files are read: a change during the reading is seen the next time
        self._signature = self._sign()
        self.context = make()

    def look(self) -> None:
        """Makes the context anew if the files have changed. Blocks: they may be on a disk that hangs."""
        signature = self._sign()
        if signature != self._signature:
            self._signature = signature
            self._renew()

    def _renew(self) -> None:
        try:
            self.context = self._make()
        except BadCertificate as error:
            log(ERROR, "changed certificates can't be used: those from before stay", of=self.of, reason=error)
        else:
            log(INFO, "certificates have changed", of=self.of, files=", ".join(map(str, self._paths)))

    def _sign(self) -> _Signature:
        return tuple(_signature(path) for path in self._paths)


class Sides(NamedTuple):
    """The credentials towards clients and towards brokers. None: no TLS."""

    listener: Credentials | None
    upstream: Credentials | None


def credentials(cluster: ClusterSettings) -> Sides:
    """The credentials that a cluster's settings name. Blocks.

    Raises:
        BadSetting: with a line for each file of either side that can't be used.
    """
    lines: list[str] = []
    sides = _sides(cluster.name, cluster.tls, cluster.upstream_tls, cluster.node_map, lines)
    if lines:
        raise BadSetting(*lines, cluster=cluster.name)
    return sides


def wrong_files(name: str, tls: ListenerTls | None, upstream_tls: UpstreamTls | None) -> list[str]:
    """A line for each file that a cluster's settings name and that can't be used."""
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
    """None where there is nothing to make, or `lines` has more lines now."""
    if settings is None:
        return None
    found = list(_unreadable(settings))
    if not found:
        try:
            return Credentials(lambda: make(settings), *settings.files.values(), of=prefix)
        except BadCertificate as error:
            found.append(error)
    lines += [f"{prefix}.{error}; right would be {_example(prefix, error.key)}" for error in found]
    return None


def _unreadable(settings: ListenerTls | UpstreamTls) -> Iterator[BadCertificate]:
    """An error for each file that is missing or may not be read; making a context would end at the first."""
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
    # the type of the callback's object is that of the line above
    context.sni_callback = partial(_on_server_name, node_map)
    return context


def upstream_context(settings: UpstreamTls) -> ssl.SSLContext:
    """A context towards brokers. Blocks. Errors: BadCertificate."""
    context = _context(ssl.PROTOCOL_TLS_CLIENT, settings.minimum)
    context.check_hostname = not settings.any_host
    if settings.ca is not None:
        _load_ca(context, settings.ca, "ca")
    else:
        context.load_default_certs()
    if settings.certificate is not None:
        _load_chain(context, settings.certificate, settings.key, settings.key_password)
    return context


def _context(protocol: int, minimum: Version) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = _VERSIONS[minimum]
    # brokers refuse renegotiation too; the length of compressed TLS reveals secrets
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    return context


def _on_server_name(
    node_map: NodeMap, tls: ssl.SSLObject | ssl.SSLSocket, name: str | None, context: ssl.SSLContext
) -> int | None:
    """Called with the name that the client asks for, or None. Returns the alert that the client gets, if any."""
    if not isinstance(tls, ServerNameObject):
        return None
    tls.asked_for = None if name is None else name.rstrip(".").lower()
    try:
        node_map.requested_node(None, tls.asked_for)
    except ValueError as error:
        tls.refusal = str(error)
        return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
    return None


def is_bad_server_name(unraisable: sys.UnraisableHookArgs) -> bool:
    """True if the error that Python could not raise is a client's server name that is not ASCII.

    Python decodes the name before `_on_server_name` is called. The handshake ends with an alert, and the program hears
    of the error in `sys.unraisablehook` only.
    """
    return isinstance(unraisable.object, bytes) and isinstance(unraisable.exc_value, UnicodeDecodeError)


def _load_chain(context: ssl.SSLContext, certificate: Path, key: Path | None, password: str | None) -> None:
    for name, path in (("certificate", certificate), ("key", key)):
        if path is not None:
            _check_readable(name, path)
    try:
        # without a password OpenSSL would ask for one on the terminal
        context.load_cert_chain(certificate, key, password if password is not None else _no_password)
    except (ssl.SSLError, ValueError, OSError) as error:
        if password is not None and _is_of_password(error, key or certificate):
            raise BadCertificate(KEY_PASSWORD, None, f"does not open {key or certificate}") from error
        # OpenSSL does not say whether the certificate is at fault; loading it as a trusted one reads it alone
        _load_ca(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate, "certificate")
        raise BadCertificate(
            "key" if key is not None else "certificate", key or certificate, reason_of(error)
        ) from error


def _is_of_password(error: Exception, key: Path) -> bool:
    """True if the key could not be decrypted: OpenSSL then gives no reason, but does for a key that does not fit."""
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
    """Raises BadCertificate. OpenSSL would not say which file is at fault, and would wait for the writer of a FIFO."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise BadCertificate(name, path, "it is no regular file")
        path.open("rb").close()
    except OSError as error:
        raise BadCertificate(name, path, error.strerror or str(error)) from error


def _signature(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def reason_of(error: Exception) -> str:
    """The reason that OpenSSL gives, in a few words and without its own line numbers."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return str(error.verify_message)
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    if isinstance(error, ssl.SSLError):
        return "OpenSSL can't read it"
    return str(error)
