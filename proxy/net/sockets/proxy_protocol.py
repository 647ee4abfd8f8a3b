"""HAProxy's PROXY protocol, versions 1 and 2: a header in which a load balancer names the client it connects for.

Parses a client's header and encodes the header for a broker; knows no socket. `HeaderParser` must be fed no more bytes
than surely belong to the header (`missing`): the bytes of the TLS handshake or request after it stay in the socket.

    version 1   a line: "PROXY TCP4 192.0.2.1 198.51.100.1 56324 9092\r\n"; at most 107 bytes
    version 2   signature, version and command, family, length, addresses, then TLVs, which are skipped

Source: https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt, sections 2.1 and 2.2.
"""

from __future__ import annotations

import re
import struct
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

from proxy.config import ProxyProtocolVersion
from proxy.schema.addresses import Address

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
# of version 2: signature, version and command, family and transport, length of the rest
_FIXED = struct.Struct(">12sBBH")
_LONGEST_LINE = 107
_SHORTEST_LINE = len(b"PROXY UNKNOWN\r\n")
# version 2 with its command: LOCAL (a connection of the sender's own), PROXY (one for a client)
_LOCAL, _PROXY = 0x20, 0x21
_TCP4, _TCP6 = 0x11, 0x21
# family without IP addresses (unspecified, UNIX sockets) -> the size of its addresses in bytes
_WITHOUT_IP_ADDRESSES = {0x00: 0, 0x31: 216, 0x32: 216}
# UDP (0x12, 0x22) has the layouts of TCP
_IP_LAYOUTS = {
    _TCP4: struct.Struct(">4s4sHH"),
    0x12: struct.Struct(">4s4sHH"),
    _TCP6: struct.Struct(">16s16sHH"),
    0x22: struct.Struct(">16s16sHH"),
}
_LINE = re.compile(rb"PROXY (TCP[46]) ([0-9A-Fa-f:.]+) ([0-9A-Fa-f:.]+) (0|[1-9][0-9]{0,4}) (0|[1-9][0-9]{0,4})\r\n")
_UNKNOWN_LINE = re.compile(rb"PROXY UNKNOWN(?: [^\r\n]*)?\r\n")


class Malformed(ValueError):
    """The bytes are not a header of the PROXY protocol; the message says why."""


class ClientEndpoints(NamedTuple):
    """The two ends of a client's connection, as IP addresses with ports: a header's source and destination."""

    client: Address
    destination: Address


class HeaderParser:
    """Parses one header. `endpoints`: None until the header is whole, and for a header that names no client."""

    def __init__(self) -> None:
        self.endpoints: ClientEndpoints | None = None
        # the number of further bytes that surely belong to the header; 0: the header is whole
        self.missing = _SHORTEST_LINE
        self._header = b""

    def feed(self, piece: bytes) -> None:
        """Takes the next bytes, at most `missing`. Raises Malformed."""
        self._header += piece
        if self._header.startswith(SIGNATURE):
            self._continue_binary()
        elif SIGNATURE.startswith(self._header):
            self.missing = _FIXED.size - len(self._header)
        else:
            self._continue_line()

    def _continue_line(self) -> None:
        line = self._header
        if not line.startswith(b"PROXY "[: len(line)]):
            raise Malformed("the first bytes begin no header")
        # the line ends with CR and LF: none, one or both of these bytes are missing
        self.missing = 0 if line.endswith(b"\r\n") else 1 if line.endswith(b"\r") else 2
        if not self.missing:
            self.endpoints = _parse_line(line)
        elif b"\n" in line or len(line) + self.missing > _LONGEST_LINE:
            raise Malformed("the line does not end where it must")

    def _continue_binary(self) -> None:
        size = _FIXED.size
        if len(self._header) >= _FIXED.size:
            size += _FIXED.unpack_from(self._header)[3]
        self.missing = size - len(self._header)
        if not self.missing:
            self.endpoints = _parse_binary(self._header)


def _parse_line(line: bytes) -> ClientEndpoints | None:
    if _UNKNOWN_LINE.fullmatch(line):
        return None
    match = _LINE.fullmatch(line)
    if match is None:
        raise Malformed("the line does not name two addresses and two ports")
    kind, *texts = (group.decode() for group in match.groups())
    client, destination, *ports = texts
    try:
        hosts = [(IPv4Address if kind == "TCP4" else IPv6Address)(text) for text in (client, destination)]
    except ValueError as error:
        raise Malformed(f"an address is not one of {kind}") from error
    if max(map(int, ports)) > 0xFFFF:
        raise Malformed("a port is above 65535")
    return ClientEndpoints(*(Address(str(host), int(port)) for host, port in zip(hosts, ports, strict=True)))


def _parse_binary(header: bytes) -> ClientEndpoints | None:
    _, command, family, size = _FIXED.unpack_from(header)
    if command == _LOCAL:
        return None
    if command != _PROXY:
        raise Malformed(f"unknown version and command {command:#x}")
    layout = _IP_LAYOUTS.get(family)
    if size < (layout.size if layout else _WITHOUT_IP_ADDRESSES.get(family, 0)):
        raise Malformed(f"{size} bytes are too few for family {family:#x}")
    if layout is None:
        if family in _WITHOUT_IP_ADDRESSES:
            return None
        raise Malformed(f"unknown family {family:#x}")
    client, destination, *ports = layout.unpack_from(header, _FIXED.size)
    return ClientEndpoints(Address(str(ip_address(client)), ports[0]), Address(str(ip_address(destination)), ports[1]))


def encode_header(version: ProxyProtocolVersion, endpoints: ClientEndpoints | None) -> bytes:
    """Returns the header that a broker is sent first. `endpoints`: the client's; None: the header names no client."""
    if version is ProxyProtocolVersion.OFF:
        return b""
    return (_line_header if version is ProxyProtocolVersion.ONE else _binary_header)(endpoints)


def _line_header(endpoints: ClientEndpoints | None) -> bytes:
    if endpoints is None:
        return b"PROXY UNKNOWN\r\n"
    client, destination = _ip_addresses(endpoints)
    family = f"TCP{client.version}"
    return f"PROXY {family} {client} {destination} {endpoints.client.port} {endpoints.destination.port}\r\n".encode()


def _binary_header(endpoints: ClientEndpoints | None) -> bytes:
    if endpoints is None:
        return _FIXED.pack(SIGNATURE, _LOCAL, 0, 0)
    client, destination = _ip_addresses(endpoints)
    family = _TCP4 if client.version == 4 else _TCP6
    layout = _IP_LAYOUTS[family]
    addresses = layout.pack(client.packed, destination.packed, endpoints.client.port, endpoints.destination.port)
    return _FIXED.pack(SIGNATURE, _PROXY, family, layout.size) + addresses


def _ip_addresses(endpoints: ClientEndpoints) -> tuple[IPv4Address | IPv6Address, IPv4Address | IPv6Address]:
    """Returns both IP addresses: as IPv6 if either is, and without the interface (`%eth0`) of a link-local one."""
    client, destination = (ip_address(address.host.partition("%")[0]) for address in endpoints)
    if client.version == destination.version:
        return client, destination
    return _as_ipv6(client), _as_ipv6(destination)


def _as_ipv6(address: IPv4Address | IPv6Address) -> IPv6Address:
    return address if isinstance(address, IPv6Address) else IPv6Address(f"::ffff:{address}")
