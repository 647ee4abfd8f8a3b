from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy import config
from proxy.config import MIB, BadSetting, ProxySettings
from proxy.rewrite.nodes import Address

LISTEN = Address("127.0.0.1", 19092)
BROKER = Address("broker-1", 9092)


def settings(*upstream: Address, **others: object) -> ProxySettings:
    return ProxySettings(upstream, config.port_map(LISTEN, None, {}, None, 1000, {}), **others)  # type: ignore[arg-type]


def wrong(error: pytest.ExceptionInfo[BadSetting]) -> str:
    """The one line, which shows something right."""
    text = str(error.value)
    assert "\n" not in text
    assert "right would be" in text
    return text


def test_settings_know_where_to_listen():
    assert settings(BROKER).listen == LISTEN


@pytest.mark.parametrize(
    ("upstream", "flag"),
    [
        ((), "--upstream names no broker"),
        ((LISTEN,), "--upstream 127.0.0.1:19092 is --listen itself"),
        ((BROKER, LISTEN), "--upstream 127.0.0.1:19092 is --listen itself"),
        ((Address("broker-1", 0),), "--upstream broker-1:0 is no port of a broker"),
    ],
)
def test_an_upstream_that_is_none_is_said(upstream, flag):
    with pytest.raises(BadSetting) as error:
        settings(*upstream)
    assert wrong(error).startswith(flag)


@pytest.mark.parametrize("seconds", [-1, -0.001, float("nan")])
def test_a_time_to_drain_that_is_none_is_said(seconds):
    with pytest.raises(BadSetting) as error:
        settings(BROKER, drain_seconds=seconds)
    assert wrong(error).startswith("--drain ")


@pytest.mark.parametrize("seconds", [0, 0.5, 10, float("inf")])
def test_any_other_time_to_drain_will_do(seconds):
    assert settings(BROKER, drain_seconds=seconds).drain_seconds == seconds


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("a:1", (Address("a", 1),)),
        ("a:1,b:2", (Address("a", 1), Address("b", 2))),
        (" a:1 , [::1]:2 ,", (Address("a", 1), Address("::1", 2))),
        ("", ()),
    ],
)
def test_addresses_are_read_in_their_order(text, addresses):
    assert config.addresses("--upstream", text) == addresses


@pytest.mark.parametrize("text", ["a", "a:", "a:b", ":1", "a:70000", "a:-1", "a b:1", "::1:1", "http://a:1"])
def test_an_address_that_is_none_is_said_with_its_flag(text):
    with pytest.raises(BadSetting) as error:
        config.address("--listen", text)
    assert wrong(error).startswith("--listen ")


def test_nodes_are_read_with_their_listeners():
    assert config.named_nodes(("1=a:2", " 30 =[::1]:0")) == {1: Address("a", 2), 30: Address("::1", 0)}


@pytest.mark.parametrize("texts", [("a:1",), ("x=a:1",), ("=a:1",), ("-1=a:1",), ("1=a",), ("1=",), ("1=a:1", "1=b:2")])
def test_a_node_that_is_none_is_said(texts):
    with pytest.raises(BadSetting) as error:
        config.named_nodes(texts)
    assert wrong(error).startswith("--node ")


@pytest.mark.parametrize(
    ("arguments", "flag"),
    [
        ((Address("0.0.0.0", 9092), None, {}, None, 1000, {}), "--listen 0.0.0.0:9092"),
        ((LISTEN, "a:1", {}, None, 1000, {}), "--advertise a:1"),
        ((LISTEN, None, {}, 65_000, 1000, {}), "--node-ports 65000"),
        ((LISTEN, None, {}, None, -1, {}), "--node-count -1"),
    ],
)
def test_a_rule_for_listeners_that_is_broken_is_said(arguments, flag):
    with pytest.raises(BadSetting) as error:
        config.port_map(*arguments)
    assert wrong(error).startswith(flag)


def test_the_state_file_lies_beside_the_capture():
    assert config.default_state_file(LISTEN, Path("capture"), {}) == Path("capture/_nodes.json")


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"HOME": "/home/me"}, "/home/me/.local/state/kafka-wiretap"),
        ({"HOME": "/home/me", "XDG_STATE_HOME": "/state"}, "/state/kafka-wiretap"),
        ({}, "/.local/state/kafka-wiretap"),
    ],
)
def test_or_in_the_users_state_folder(environment, folder):
    path = config.default_state_file(LISTEN, None, environment)
    assert path == Path(folder) / "nodes-127.0.0.1-19092.json"


def test_each_listener_has_a_state_of_its_own():
    listeners = [LISTEN, Address("127.0.0.1", 19093), Address("::1", 19092), Address("*", 19092)]
    paths = {config.default_state_file(listen, None, {}) for listen in listeners}
    assert len(paths) == len(listeners)


def test_a_listener_on_any_port_has_no_state():
    assert config.default_state_file(Address("127.0.0.1", 0), None, {}) is None


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("512", 512),
        ("512B", 512),
        ("3KiB", 3072),
        ("64MiB", 64 * MIB),
        (" 2 gib ", 2048 * MIB),
        ("1TiB", 2**40),
    ],
)
def test_a_size_is_read_with_its_unit(text, size):
    assert config.size("--record-queue", text) == size


@given(st.text())
def test_any_text_is_a_size_or_a_bad_setting(text):
    try:
        read = config.size("--record-queue", text)
    except BadSetting:
        return
    assert read >= 0


@pytest.mark.parametrize("text", ["", "64MB", "-1", "1.5MiB", "MiB", "lots"])
def test_a_size_that_is_none_is_said(text):
    with pytest.raises(BadSetting) as error:
        config.size("--record-queue", text)
    assert wrong(error).startswith("--record-queue ")
