"""The headers before a packet's bytes of TCP: link, VLAN, IP, TCP. Bytes in, values out; every length is checked.

    link      Ethernet, Linux "cooked" (two versions), BSD loopback (null, loop), raw IP
    between   VLAN tags, any number of them
    IP        4 and 6, with extension headers. Fragments are not put together: TCP avoids them, and they are counted

Written here because each packet passes: the library that reads headers best (dpkt) makes an object of each layer, which
takes ten times as long, and has had no release since 2022.
Source: tcpdump's "Link-layer header types"; RFC 791, 8200, 9293.
"""

from __future__ import annotations

import struct
from enum import StrEnum
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple

# LINKTYPE -> the name for people
NULL, ETHERNET, RAW, LOOP, COOKED, IPV4, IPV6, COOKED_2 = 0, 1, 101, 108, 113, 228, 229, 276
LINKS = {
    ETHERNET: "Ethernet",
    COOKED: "Linux cooked",
    COOKED_2: "Linux cooked v2",
    NULL: "BSD loopback",
    LOOP: "OpenBSD loopback",
    RAW: "raw IP",
    IPV4: "raw IPv4",
    IPV6: "raw IPv6",
    # numbers of raw IP in files of some BSDs
    12: "raw IP",
    14: "raw IP",
}
_RAW = frozenset({RAW, IPV4, IPV6, 12, 14})
_IP4, _IP6 = 0x0800, 0x86DD
_TAGS = frozenset({0x8100, 0x88A8, 0x9100})
_TCP, _FRAGMENT = 6, 44
# extension headers of IPv6 whose length stands in their second byte, in units of 8 bytes
_EXTENSIONS = frozenset({0, 43, 60, 135, 139, 140})
_AUTHENTICATION = 51
# more extension headers than any packet has
_MAX_EXTENSIONS = 16

_PORTS_AND_NUMBERS = struct.Struct(">HHIIBB")
_SHORTEST_TCP = 20

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16


class Passed(StrEnum):
    """Why a packet says nothing here."""

    LINK = "of a link type that is not read"
    OTHER = "not TCP"
    FRAGMENT = "fragments of IP"
    CUT = "cut within their headers"


class Endpoint(NamedTuple):
    """One side of a connection. `host`: 4 or 16 bytes."""

    host: bytes
    port: int

    def __str__(self) -> str:
        if len(self.host) == 4:
            return f"{IPv4Address(self.host)}:{self.port}"
        address = IPv6Address(self.host)
        return f"{address.ipv4_mapped}:{self.port}" if address.ipv4_mapped else f"[{address}]:{self.port}"


class Segment(NamedTuple):
    """A segment of TCP. `missing`: bytes at its end that were not captured."""

    source: Endpoint
    destination: Endpoint
    sequence: int
    acknowledged: int
    flags: int
    data: bytes
    missing: int


def segment(link: int, data: bytes) -> Segment | Passed:
    """The segment of TCP in a packet."""
    try:
        return _of_link(link, data)
    except (struct.error, IndexError):
        return Passed.CUT


def _of_link(link: int, data: bytes) -> Segment | Passed:
    if link == ETHERNET:
        kind, at = _behind_tags(data, 12, 14)
    elif link in _RAW:
        kind, at = _IP6 if data[0] >> 4 == 6 else _IP4, 0
    elif link == COOKED:
        kind, at = _behind_tags(data, 14, 16)
    elif link == COOKED_2:
        kind, at = _behind_tags(data, 0, 20)
    elif link in (NULL, LOOP):
        # a number of the system that has captured: 2 is IPv4 everywhere, IPv6 differs
        kind, at = _IP6 if data[4] >> 4 == 6 else _IP4, 4
    else:
        return Passed.LINK
    if kind == _IP4:
        return _of_ip4(data, at)
    return _of_ip6(data, at) if kind == _IP6 else Passed.OTHER


def _behind_tags(data: bytes, kind_at: int, at: int) -> tuple[int, int]:
    """The EtherType behind all VLAN tags, and the offset behind them.

    Args:
        kind_at: where the link's EtherType stands.
        at: where the link's header ends.
    """
    kind = data[kind_at] << 8 | data[kind_at + 1]
    while kind in _TAGS:
        kind, at = data[at + 2] << 8 | data[at + 3], at + 4
    return kind, at


def _of_ip4(data: bytes, at: int) -> Segment | Passed:
    if data[at] >> 4 != 4:
        return Passed.OTHER
    if data[at + 9] != _TCP:
        return Passed.OTHER
    # more fragments, or an offset
    if data[at + 6] & 0x3F or data[at + 7]:
        return Passed.FRAGMENT
    head, total = (data[at] & 0x0F) * 4, data[at + 2] << 8 | data[at + 3]
    # 0: the packet is one that the network card was to cut in pieces
    end = at + total if total else len(data)
    return _of_tcp(data, at + head, end, data[at + 12 : at + 16], data[at + 16 : at + 20])


def _of_ip6(data: bytes, at: int) -> Segment | Passed:
    if data[at] >> 4 != 6:
        return Passed.OTHER
    following, payload = data[at + 6], data[at + 4] << 8 | data[at + 5]
    source, destination = data[at + 8 : at + 24], data[at + 24 : at + 40]
    at += 40
    end = at + payload if payload else len(data)
    for _ in range(_MAX_EXTENSIONS):
        if following == _TCP:
            return _of_tcp(data, at, end, source, destination)
        if following == _FRAGMENT:
            return Passed.FRAGMENT
        if following not in _EXTENSIONS and following != _AUTHENTICATION:
            return Passed.OTHER
        size = (data[at + 1] + 2) * 4 if following == _AUTHENTICATION else (data[at + 1] + 1) * 8
        following, at = data[at], at + size
    return Passed.OTHER


def _of_tcp(data: bytes, at: int, end: int, source: bytes, destination: bytes) -> Segment | Passed:
    from_port, to_port, sequence, acknowledged, offset, flags = _PORTS_AND_NUMBERS.unpack_from(data, at)
    begin = at + (offset >> 4) * 4
    if begin < at + _SHORTEST_TCP or begin > end:
        return Passed.CUT
    return Segment(
        Endpoint(source, from_port),
        Endpoint(destination, to_port),
        sequence,
        acknowledged,
        flags,
        data[begin:end],
        max(end - max(len(data), begin), 0),
    )
