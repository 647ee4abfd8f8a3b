from contextlib import suppress
from ipaddress import ip_network

import pytest
from hypothesis import given

from proxy.rewrite.nodes import Address
from proxy.settings.addresses import ADDRESS, BROKERS, HOST, NETWORKS
from proxy.settings.kinds import Kind, Misread
from tests.proxy.settings.raw import RAW


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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
def test_what_is_no_address_is_said_behind_it(kind, raw, reason):
    with pytest.raises(Misread) as error:
        kind.read(raw)
    assert str(error.value).startswith(reason)


@pytest.mark.parametrize("kind", [ADDRESS, BROKERS, HOST], ids=lambda kind: kind.name)
@given(raw=RAW)
def test_anything_is_an_address_or_misread_and_an_address_is_written_as_it_is_read(kind: Kind, raw: object):
    with suppress(Misread):
        value = kind.read(raw)
        assert kind.read(kind.written(value)) == value


def test_brokers_are_written_as_a_list():
    assert BROKERS.written((Address("a", 1), Address("::1", 2))) == ["a:1", "[::1]:2"]
