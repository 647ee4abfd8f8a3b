"""Tests of PROXY headers against the specification's examples, another implementation, and themselves."""

from __future__ import annotations

import socket
import struct
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from proxyprotocol import ProxyProtocolIncompleteError, ProxyProtocolSyntaxError
from proxyprotocol.result import ProxyResult, ProxyResultIPv4, ProxyResultIPv6, ProxyResultLocal, is_ipv4, is_ipv6
from proxyprotocol.v1 import ProxyProtocolV1
from proxyprotocol.v2 import ProxyProtocolV2

from proxy.config import ProxyProtocolVersion
from proxy.net.sockets.proxy_protocol import SIGNATURE, ClientEndpoints, HeaderParser, Malformed, encode_header
from proxy.schema.addresses import Address
from tests.tables import each_row

OTHERS = {ProxyProtocolVersion.ONE: ProxyProtocolV1(), ProxyProtocolVersion.TWO: ProxyProtocolV2()}
VERSIONS = st.sampled_from([*OTHERS])
PORTS = st.integers(0, 0xFFFF)
FOUR = st.builds(Address, st.ip_addresses(v=4).map(str), PORTS)
SIX = st.builds(Address, st.ip_addresses(v=6).map(str), PORTS)
ENDPOINTS_STRATEGY = st.builds(ClientEndpoints, FOUR, FOUR) | st.builds(ClientEndpoints, SIX, SIX)
TCP = socket.SOCK_STREAM
BEHIND = b"\x16\x03\x01 or a request"


def take(stream: bytes) -> tuple[ClientEndpoints | None, bytes]:
    """Returns a header's content, and the bytes after it, if each read gets all that it asks for."""
    parser = HeaderParser()
    while parser.missing:
        piece, stream = stream[: parser.missing], stream[parser.missing :]
        if not piece:
            raise EOFError
        parser.feed(piece)
    return parser.endpoints, stream


def take_slowly(stream: bytes) -> tuple[ClientEndpoints | None, bytes]:
    """Like `take`, but byte by byte."""
    parser = HeaderParser()
    for at in range(len(stream)):
        parser.feed(stream[at : at + 1])
        if not parser.missing:
            return parser.endpoints, stream[at + 1 :]
    raise EOFError


def binary(command: int, family: int, rest: bytes = b"") -> bytes:
    return SIGNATURE + struct.pack(">BBH", command, family, len(rest)) + rest


# written headers are read, here and by the other implementation


@given(VERSIONS, ENDPOINTS_STRATEGY)
def test_a_written_header_is_read_and_no_byte_after_it(version: ProxyProtocolVersion, endpoints: ClientEndpoints):
    for way in (take, take_slowly):
        assert way(encode_header(version, endpoints) + BEHIND) == (endpoints, BEHIND)


def endpoints_of(found: ProxyResult) -> ClientEndpoints:
    assert is_ipv4(found) or is_ipv6(found)
    return ClientEndpoints(*(Address(str(host), port) for host, port in (found.source, found.dest)))


@given(VERSIONS, ENDPOINTS_STRATEGY)
def test_another_implementation_reads_what_was_written(version: ProxyProtocolVersion, endpoints: ClientEndpoints):
    found = OTHERS[version].unpack(encode_header(version, endpoints))
    assert endpoints_of(found) == endpoints


@given(VERSIONS, ENDPOINTS_STRATEGY)
def test_a_header_of_another_implementation_is_read(version: ProxyProtocolVersion, endpoints: ClientEndpoints):
    client, listener = ((address.host, address.port) for address in endpoints)
    if ":" in endpoints.client.host:
        theirs: ProxyResultIPv4 | ProxyResultIPv6 = ProxyResultIPv6(
            (IPv6Address(client[0]), client[1]), (IPv6Address(listener[0]), listener[1]), protocol=TCP
        )
    else:
        theirs = ProxyResultIPv4(
            (IPv4Address(client[0]), client[1]), (IPv4Address(listener[0]), listener[1]), protocol=TCP
        )
    # in version 2 with its checksum as a TLV
    assert take(OTHERS[version].pack(theirs) + BEHIND) == (endpoints, BEHIND)


@pytest.mark.parametrize("version", OTHERS)
def test_a_connection_of_the_proxy_itself_has_no_client(version: ProxyProtocolVersion):
    for way in (take, take_slowly):
        assert way(encode_header(version, None) + BEHIND) == (None, BEHIND)


def test_another_implementation_knows_a_connection_of_the_proxys_own():
    assert isinstance(
        OTHERS[ProxyProtocolVersion.TWO].unpack(encode_header(ProxyProtocolVersion.TWO, None)), ProxyResultLocal
    )
    assert not OTHERS[ProxyProtocolVersion.ONE].unpack(encode_header(ProxyProtocolVersion.ONE, None)).source


def test_no_header_is_written_if_headers_are_off():
    assert (
        encode_header(ProxyProtocolVersion.OFF, ClientEndpoints(Address("192.0.2.1", 1), Address("192.0.2.2", 2)))
        == b""
    )


def test_ends_of_two_families_are_written_in_the_larger_one():
    endpoints = ClientEndpoints(Address("192.0.2.1", 1), Address("2001:db8::1", 2))
    for version in OTHERS:
        found, _ = take(encode_header(version, endpoints))
        assert found is not None
        assert IPv6Address(found.client.host).ipv4_mapped == IPv4Address("192.0.2.1")
        assert found.destination == endpoints.destination


@pytest.mark.parametrize("version", OTHERS)
def test_the_interface_of_a_link_local_address_is_left_out(version: ProxyProtocolVersion):
    endpoints = ClientEndpoints(Address("fe80::1%eth0", 1), Address("fe80::2%eth0", 2))
    assert take(encode_header(version, endpoints))[0] == ClientEndpoints(Address("fe80::1", 1), Address("fe80::2", 2))


# lines: sections 2.1 of the specification


@each_row(
    ("line", "endpoints"),
    [
        (
            b"PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n",
            ClientEndpoints(Address("255.255.255.255", 65535), Address("255.255.255.255", 65535)),
        ),
        (
            b"PROXY TCP6 ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n".replace(
                b"ffff:f...f:ffff", b":".join([b"ffff"] * 8)
            ),
            ClientEndpoints(*[Address(":".join(["ffff"] * 8), 65535)] * 2),
        ),
        (b"PROXY UNKNOWN\r\n", None),
        (b"PROXY UNKNOWN " + b" ".join([b":".join([b"ffff"] * 8)] * 2) + b" 65535 65535\r\n", None),
        (
            b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n",
            ClientEndpoints(Address("192.168.0.1", 56324), Address("192.168.0.11", 443)),
        ),
        (b"PROXY TCP4 1.1.1.1 1.1.1.1 0 0\r\n", ClientEndpoints(*[Address("1.1.1.1", 0)] * 2)),
    ],
    ids=["v4", "v6", "unknown", "unknown, as long as can be", "example", "as short as can be"],
)
def test_the_lines_of_the_specification_are_read(line: bytes, endpoints: ClientEndpoints | None):
    for way in (take, take_slowly):
        assert way(line + BEHIND) == (endpoints, BEHIND)


WRONG_LINES = {
    "another word": b"GET / HTTP/1.1\r\n\r\n",
    "a request of Kafka": b"\0\0\0\x10\0\x12\0\0\0\0\0\1\0\4test",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(20),
    "small letters": b"proxy TCP4 1.1.1.1 1.1.1.1 1 1\r\n",
    "no family": b"PROXY 1.1.1.1 1.1.1.1 1 1\r\n",
    "another family": b"PROXY UDP4 1.1.1.1 1.1.1.1 1 1\r\n",
    "an address less": b"PROXY TCP4 1.1.1.1 1 11111\r\n",
    "a name": b"PROXY TCP4 localhost 1.1.1.1 1 1\r\n",
    "the other family": b"PROXY TCP4 ::1 ::1 1 1\r\n",
    "the other family, too": b"PROXY TCP6 1.1.1.1 1.1.1.1 1 1\r\n",
    "an interface": b"PROXY TCP6 fe80::1%eth0 ::1 1 1\r\n",
    "zeros in front of a number": b"PROXY TCP4 1.1.1.01 1.1.1.1 1 1\r\n",
    "zeros in front of a port": b"PROXY TCP4 1.1.1.1 1.1.1.1 01 1\r\n",
    "a port too high": b"PROXY TCP4 1.1.1.1 1.1.1.1 1 65536\r\n",
    "a port below 0": b"PROXY TCP4 1.1.1.1 1.1.1.1 -1 1\r\n",
    "two blanks": b"PROXY TCP4  1.1.1.1 1.1.1.1 1 1\r\n",
    "more": b"PROXY TCP4 1.1.1.1 1.1.1.1 1 1 1\r\n",
    "no carriage return": b"PROXY TCP4 1.1.1.1 1.1.1.1 1 1\n",
    "two carriage returns": b"PROXY TCP4 1.1.1.1 1.1.1.1 1 1\r\r\n",
    "too long": b"PROXY UNKNOWN " + b"x" * 92 + b"\r\n",
    "unknown, and more": b"PROXY UNKNOWNS\r\n",
    "endless": b"PROXY " + b"x" * 500,
}


@each_row("line", WRONG_LINES.values(), ids=WRONG_LINES)
def test_a_bad_header_is_malformed(line: bytes):
    for way in (take, take_slowly):
        with pytest.raises(Malformed):
            way(line)


@pytest.mark.parametrize("line", [b"PROXY UNKNOWN " + b"x" * 91 + b"\r\n"])
def test_107_bytes_are_not_too_long(line: bytes):
    assert len(line) == 107
    assert take(line) == (None, b"")


def test_a_line_is_known_to_be_wrong_before_its_end_has_come():
    with pytest.raises(Malformed):
        HeaderParser().feed(b"G")


# the binary form: section 2.2


FOUR_OF_THEM = bytes([192, 0, 2, 1, 198, 51, 100, 2]) + struct.pack(">HH", 56324, 9092)
FOUR_ENDPOINTS = ClientEndpoints(Address("192.0.2.1", 56324), Address("198.51.100.2", 9092))
SIX_OF_THEM = IPv6Address("2001:db8::1").packed + IPv6Address("2001:db8::2").packed + struct.pack(">HH", 1, 2)
SIX_ENDPOINTS = ClientEndpoints(Address("2001:db8::1", 1), Address("2001:db8::2", 2))
# PP2_TYPE_AUTHORITY, PP2_TYPE_NOOP
TLVS = b"\x02\x00\x04a.bc" + b"\x04\x00\x03xyz"


@each_row(
    ("bytes_", "endpoints"),
    [
        (binary(0x21, 0x11, FOUR_OF_THEM), FOUR_ENDPOINTS),
        (binary(0x21, 0x11, FOUR_OF_THEM + TLVS), FOUR_ENDPOINTS),
        (binary(0x21, 0x12, FOUR_OF_THEM), FOUR_ENDPOINTS),
        (binary(0x21, 0x21, SIX_OF_THEM), SIX_ENDPOINTS),
        (binary(0x21, 0x22, SIX_OF_THEM + TLVS), SIX_ENDPOINTS),
        (binary(0x21, 0x21, SIX_OF_THEM + bytes(0xFFFF - 36)), SIX_ENDPOINTS),
        (binary(0x21, 0x00), None),
        (binary(0x21, 0x00, TLVS), None),
        (binary(0x21, 0x31, bytes(216)), None),
        (binary(0x21, 0x32, bytes(216) + TLVS), None),
        (binary(0x20, 0x00), None),
        # a local connection's family and addresses must be ignored
        (binary(0x20, 0x11, FOUR_OF_THEM), None),
        (binary(0x20, 0xFF, b"anything"), None),
    ],
)
def test_binary_headers_are_read(bytes_: bytes, endpoints: ClientEndpoints | None):
    for way in (take, take_slowly):
        assert way(bytes_ + BEHIND) == (endpoints, BEHIND)


@each_row(
    "bytes_",
    [
        binary(0x11, 0x11, FOUR_OF_THEM),
        binary(0x22, 0x11, FOUR_OF_THEM),
        binary(0x31, 0x11, FOUR_OF_THEM),
        binary(0x21, 0x10, FOUR_OF_THEM),
        binary(0x21, 0x13, FOUR_OF_THEM),
        binary(0x21, 0x41, SIX_OF_THEM),
        binary(0x21, 0x11, FOUR_OF_THEM[:-1]),
        binary(0x21, 0x21, FOUR_OF_THEM),
        binary(0x21, 0x31, bytes(215)),
    ],
)
def test_binary_headers_that_say_nothing_that_is_known_are_malformed(bytes_: bytes):
    for way in (take, take_slowly):
        with pytest.raises(Malformed):
            way(bytes_)


# anything


STARTS = st.sampled_from([b"", b"PROXY ", b"PROXY TCP4 ", b"PROXY UNKNOWN", SIGNATURE, SIGNATURE + b"\x21\x11\0\x0c"])


@given(st.builds(bytes.__add__, STARTS, st.binary(max_size=300)))
@example(SIGNATURE[:5] + b"x" * 20)
def test_any_bytes_are_read_the_same_however_they_come(stream: bytes):
    """The result is the same byte by byte: a header, none, or too few bytes. A wrong beginning may show earlier."""
    outcomes: list[object] = []
    for way in (take, take_slowly):
        try:
            outcomes.append(way(stream))
        except (Malformed, EOFError) as error:
            outcomes.append(type(error))
    assert outcomes[0] == outcomes[1]


@given(st.text("PROXYTCUNKW46 .:0123456789abcdef\r\n", max_size=60))
def test_a_line_that_is_read_is_one_for_another_implementation(text: str):
    line = b"PROXY TCP" + text.encode() + b"\r\n"
    try:
        endpoints, rest = take(line)
    except (Malformed, EOFError):
        return
    found = ProxyProtocolV1().unpack_line(line[: len(line) - len(rest)])
    assert endpoints == endpoints_of(found)


@given(st.binary(min_size=16, max_size=80).map(lambda tail: SIGNATURE + tail))
def test_a_binary_header_that_is_read_is_one_for_another_implementation(stream: bytes):
    try:
        endpoints, rest = take(stream)
    except (Malformed, EOFError):
        return
    try:
        found = OTHERS[ProxyProtocolVersion.TWO].unpack(stream[: len(stream) - len(rest)])
    except (ProxyProtocolSyntaxError, ProxyProtocolIncompleteError):
        pytest.fail("the other one does not read it")
    except ValueError:
        # its checksum, or incomplete TLVs, which are ignored here
        return
    if endpoints is not None:
        assert endpoints == endpoints_of(found)
