"""Addresses (host and port), and the kinds of settings for addresses, lists of brokers, networks and hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from socket import AF_INET6, inet_ntop
from typing import Any
from urllib.parse import urlsplit

from proxy.schema.errors import InvalidValue
from proxy.schema.kinds import Kind, Read, each, elements, shown, text, text_within

# bytes of the longest host name in DNS (RFC 1035)
HOST_LIMIT = 255


@dataclass(frozen=True, slots=True)
class Address:
    """A host (a name or an IP address, without brackets) and a port. As a listener, port 0 means any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def comparable(self) -> Address:
        """This address as DNS compares names: in small letters, without the dot of an absolute name."""
        return Address(undotted(self.host).lower(), self.port)

    @classmethod
    def parse(cls, text: str) -> Address:
        """The address in "host:9092" or "[::1]:9092". Raises ValueError, with the fault and an example."""
        host, colon, port = text.strip().rpartition(":")
        # Python refuses to read thousands of digits
        is_number = port.isascii() and port.isdigit() and len(port) < 10
        if not colon or not is_number or int(port) not in range(1 << 16):
            raise ValueError(f"{text!r} has no port between 0 and 65535; right would be broker-1:9092 or [::1]:9092")
        bracketed = host.startswith("[") and host.endswith("]") and is_ip(host[1:-1], IPv6Address)
        if not bracketed and not is_host(host):
            raise ValueError(f"{text!r} has no host before its port; right would be broker-1:9092 or [::1]:9092")
        return cls(host[1:-1] if bracketed else host, int(port))


@dataclass(frozen=True, slots=True)
class MeantAddress:
    """The addresses (HOST:PORT, as `Address` writes them) that a user means by a text.

    `exact`: these. `beginnings`: also those that begin so. `is_ipv6`: the text is an IPv6 address without a port.
    """

    exact: tuple[str, ...]
    beginnings: tuple[str, ...]
    is_ipv6: bool

    def matches(self, address: str) -> bool:
        """True if the text means this address."""
        return address in self.exact or address.startswith(self.beginnings)


@lru_cache(maxsize=1024)
def meant(text: str) -> MeantAddress:
    """What a text means that may be an address: a host with or without a port, IPv6 with or without brackets.

    IPv6 addresses may be spelled in any way. `::1:9092` is both an address without a port, and ::1 with the port 9092.
    An IPv4 address also means the IPv6 address that is mapped to it, and the other way round. An IPv6 address without
    a zone means that of every zone.
    """
    exact = {text}
    host, _, port = text.rpartition(":")
    if port.isascii() and port.isdigit() and len(port) < 6 and _host(host):
        exact.update(f"{begun}{int(port)}" for begun in _begun(_host(host)) if begun.endswith(":"))
    host = _host(text)
    beginnings = _begun(host) if host else ()
    return MeantAddress(tuple(sorted(exact)), tuple(beginnings), is_ip(host, IPv6Address))


def _host(text: str) -> str:
    """The host that a text is, without brackets; empty if it is none."""
    inside = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    return inside if is_ip(inside, IPv6Address) or (inside == text and is_host(text)) else ""


def _begun(host: str) -> Iterator[str]:
    """How the addresses of a host begin, as the kernel spells it."""
    if is_ip(host, IPv4Address):
        yield from (f"{host}:", f"[::ffff:{host}]:")
    elif is_ip(host, IPv6Address):
        plain, percent, zone = host.partition("%")
        spelled = inet_ntop(AF_INET6, IPv6Address(plain).packed)
        yield f"[{spelled}{percent}{zone}]:"
        mapped = IPv6Address(plain).ipv4_mapped
        if mapped is not None:
            yield f"{mapped}:"
        if not percent:
            yield f"[{spelled}%"
    else:
        yield f"{host}:"


def undotted(host: str) -> str:
    """The host without the trailing dot of an absolute name. TLS forbids that dot (RFC 6066), certificates lack it."""
    return host.removesuffix(".") or host


def is_host(text: str) -> bool:
    """True if the text may stand before a port: a name or an IPv4 address."""
    return 0 < len(text.encode()) <= HOST_LIMIT and not any(c.isspace() or c in ":/[]@=,{}" for c in text)


def is_ip(text: str, version: type[IPv4Address | IPv6Address]) -> bool:
    """True for an IP address of this version, without brackets."""
    try:
        version(text)
    except ValueError:
        return False
    return True


def _address(raw: Any) -> Address:
    written = text(raw)
    try:
        address = Address.parse(written)
    except ValueError as error:
        # the error's example is that of a broker; the key has an example of its own
        wrong = str(error).split("; right would be")[0]
        raise InvalidValue(wrong.removeprefix(repr(written)).strip()) from error
    _check_letters(address.host)
    return address


def _check_letters(host: str) -> None:
    """Raises InvalidValue for a host with letters that IDNA, the encoding of names for DNS, does not allow."""
    try:
        if not host.isascii():
            host.encode("idna")
    except UnicodeError as error:
        raise InvalidValue("has a host that is no name in DNS") from error


def _list(element: str, read: Callable[[Any], Read], raw: Any) -> tuple[Read, ...]:
    """The values of a list, or of a text with commas, by `read`. `element`: the name of an element in errors."""
    parts = elements(raw)
    if isinstance(raw, str):
        # a comma at the end is no mistake
        parts = [part for part in parts if not isinstance(part, str) or part.strip()]
    if not isinstance(parts, list) or not parts:
        raise InvalidValue(f"names no {element}")
    return each(parts, read)


def _broker(part: Any) -> Address:
    try:
        address = _address(part)
    except InvalidValue as error:
        raise InvalidValue(f"has {shown(part)}, which {error}") from error
    if not address.port:
        raise InvalidValue(f"has {shown(part)}, whose port is no broker's")
    return address


def _network(part: Any) -> IPv4Network | IPv6Network:
    try:
        written = text(part)
        return ip_network(written)
    except InvalidValue as error:
        raise InvalidValue(f"has {shown(part)}, which {error}") from error
    except ValueError as error:
        host = " (bits are set behind its length)" if "host bits" in str(error) else ""
        raise InvalidValue(f"has {shown(written)}, which is no network{host}") from error


def _texts(values: Iterable[object]) -> list[str]:
    return [str(value) for value in values]


def http_url(of: str, raw: Any) -> str:
    """A URL of HTTP, without a slash at its end. It may hold no secret: user, password, query, fragment.

    `of`: whose it is, for the error. Errors: InvalidValue.
    """
    url = text(raw)
    try:
        parts = urlsplit(url)
        is_right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_right = False
    if not is_right or parts.username or parts.password or parts.query or parts.fragment:
        raise InvalidValue(f"is no URL of {of}")
    return url.rstrip("/")


ADDRESS = Kind("HOST:PORT", _address, str, "HOST:PORT")
BROKERS = Kind("a list of HOST:PORT", partial(_list, "broker", _broker), _texts, "HOST:PORT[,...]")
NETWORKS = Kind("a list of networks or IP addresses", partial(_list, "network", _network), _texts)
COLLECTOR = Kind('a URL such as "http://collector:4318"', partial(http_url, "a collector"), str, "URL")
HOST = Kind("a host name or IP address", partial(text_within, HOST_LIMIT), str, "HOST")
