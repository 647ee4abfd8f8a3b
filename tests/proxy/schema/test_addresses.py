from contextlib import suppress
from ipaddress import ip_network
from socket import AF_INET6, inet_ntop

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.schema.addresses import ADDRESS, BROKERS, COLLECTOR, HOST, NETWORKS, Address, meant
from proxy.schema.errors import InvalidValue
from proxy.schema.kinds import Kind
from tests.proxy.schema.raw import RAW
from tests.tables import each_row


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("broker-1:9092", Address("broker-1", 9092)),
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
        ("[::1]:65535", Address("::1", 65535)),
    ],
)
def test_an_address_is_read_and_written_the_same_way(text: str, address: Address) -> None:
    assert Address.parse(text) == address
    assert str(address) == text


@each_row(
    "text",
    [
        "",
        "broker",
        "broker:",
        ":9092",
        "::1:9092",
        "[broker]:9092",
        "broker:65536",
        "broker:-1",
        "a b:1",
        "a,b:1",
        "b:²",
    ],
)
def test_a_wrong_address_is_refused_with_a_right_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"right would be broker-1:9092 or \[::1\]:9092"):
        Address.parse(text)


@given(st.integers(0, 65535), st.from_regex(r"[a-z][a-z0-9.-]{0,200}", fullmatch=True))
def test_every_name_and_port_survives_being_written_and_read(port: int, host: str) -> None:
    assert Address.parse(str(Address(host, port))) == Address(host, port)


@each_row(
    ("kind", "raw", "value"),
    [
        (ADDRESS, "a:1", Address("a", 1)),
        (ADDRESS, " [::1]:0 ", Address("::1", 0)),
        (BROKERS, ["a:1", "[::1]:2"], (Address("a", 1), Address("::1", 2))),
        (NETWORKS, ["10.0.0.0/8", "::1"], (ip_network("10.0.0.0/8"), ip_network("::1/128"))),
        (NETWORKS, "192.0.2.1, 10.0.0.0/8", (ip_network("192.0.2.1/32"), ip_network("10.0.0.0/8"))),
        (BROKERS, " a:1 , b:2 ,", (Address("a", 1), Address("b", 2))),
        (HOST, " proxy.example.org", "proxy.example.org"),
    ],
)
def test_an_address_is_read_as_toml_and_as_text(kind, raw, value):
    assert kind.read(raw) == value


@each_row(
    ("kind", "raw", "reason"),
    [
        *((ADDRESS, text, "has no") for text in ("a", "a:", "a:b", ":1", "a:70000", "a:-1", "a b:1", "::1:1")),
        (ADDRESS, "http://a:1", "has no host before its port"),
        (ADDRESS, "ü..x:1", "has a host that is no name in DNS"),
        (ADDRESS, "ü" * 70 + ":1", "has a host that is no name in DNS"),
        (BROKERS, "b:1,ü..x:1", "has 'ü..x:1', which has a host that is no name in DNS"),
        (ADDRESS, 9092, "is no text"),
        (NETWORKS, [], "names no network"),
        (NETWORKS, ["10.0.0.1/8"], "has '10.0.0.1/8', which is no network (bits are set behind its length)"),
        (NETWORKS, ["balancer"], "has 'balancer', which is no network"),
        (NETWORKS, [7, "a", "a"], "has 7, which is no text, and has 'a', which is no network"),
        (BROKERS, "a:0,b:1,c", "has 'a:0', whose port is no broker's, and has 'c', which has no port"),
        (BROKERS, [], "names no broker"),
        (BROKERS, " , ", "names no broker"),
        (BROKERS, {}, "names no broker"),
        (BROKERS, ["a:1", "b"], "has 'b', which has no port"),
        (BROKERS, ["a:0"], "has 'a:0', whose port is no broker's"),
        (BROKERS, [7], "has 7, which is no text"),
        (HOST, "  ", "is empty"),
        (HOST, "a\nb", "has characters that nobody can see"),
    ],
)
def test_a_bad_address_is_refused_with_a_reason(kind, raw, reason):
    with pytest.raises(InvalidValue) as error:
        kind.read(raw)
    assert str(error.value).startswith(reason)


@pytest.mark.parametrize("kind", [ADDRESS, BROKERS, HOST], ids=lambda kind: kind.name)
@given(raw=RAW)
def test_anything_is_an_address_or_misread_and_an_address_is_written_as_it_is_read(kind: Kind, raw: object):
    with suppress(InvalidValue):
        value = kind.read(raw)
        assert kind.read(kind.written(value)) == value


def test_brokers_are_written_as_a_list():
    assert BROKERS.written((Address("a", 1), Address("::1", 2))) == ["a:1", "[::1]:2"]


@each_row(
    ("text", "address"),
    [
        ("::1", "[::1]:9092"),
        ("[::1]", "[::1]:9092"),
        ("[::1]:9092", "[::1]:9092"),
        ("::1:9092", "[::1]:9092"),
        ("0:0:0:0:0:0:0:1:9092", "[::1]:9092"),
        ("FE80::0:1", "[fe80::1]:9092"),
        ("fe80::1", "[fe80::1%eth0]:9092"),
        ("fe80::1%eth0", "[fe80::1%eth0]:9092"),
        ("127.0.0.1", "127.0.0.1:9092"),
        ("127.0.0.1:9092", "127.0.0.1:9092"),
        ("127.0.0.1", "[::ffff:127.0.0.1]:9092"),
        ("::ffff:127.0.0.1", "127.0.0.1:9092"),
        ("broker", "broker:9092"),
    ],
)
def test_an_address_is_meant_by_every_spelling_of_it(text, address):
    assert meant(text).matches(address)


@each_row(
    ("text", "address"),
    [
        ("::1", "[::11]:9092"),
        ("[::1]:909", "[::1]:9092"),
        ("::1", "[::2]:1"),
        ("127.0.0.1:909", "127.0.0.1:9092"),
        ("127.0.0", "127.0.0.1:9092"),
        ("fe80::1%eth1", "[fe80::1%eth0]:9092"),
        ("", "127.0.0.1:9092"),
        ("[", "[::1]:9092"),
    ],
)
def test_no_other_address_is_meant(text, address):
    assert not meant(text).matches(address)


@given(st.ip_addresses(v=6), st.integers(0, 65535))
def test_every_ipv6_address_is_meant_with_and_without_brackets_and_port(host, port):
    address = f"[{inet_ntop(AF_INET6, host.packed)}]:{port}"
    for text in (str(host), f"[{host}]", host.exploded, f"[{host.exploded}]:{port}", f"{host.exploded}:{port}"):
        assert meant(text).matches(address)


@pytest.mark.parametrize("raw", ["http://collector:4318", "https://[::1]:1/base", "http://a"])
def test_a_url_of_a_collector_is_read_without_the_slash_at_its_end(raw: str) -> None:
    assert COLLECTOR.read(raw) == COLLECTOR.read(f"{raw}/") == raw


@pytest.mark.parametrize(
    "raw",
    [
        *("", "collector:4318", "grpc://a:1", "http://", "http://a:0", "http://a:x", "http://a:70000"),
        *("http://me:pw@a", "http://a?b", "http://a#b", "http://[a", 7),
    ],
)
def test_a_url_with_a_secret_or_without_a_host_is_none_of_a_collector(raw: object) -> None:
    with pytest.raises(InvalidValue):
        COLLECTOR.read(raw)
