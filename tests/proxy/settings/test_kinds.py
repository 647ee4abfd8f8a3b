from contextlib import suppress
from enum import StrEnum
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.rewrite.nodes import Address
from proxy.settings import kinds
from proxy.settings.kinds import MIB, Kind, Misread


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


KINDS = (
    kinds.ADDRESS,
    kinds.BROKERS,
    kinds.HOST,
    kinds.INTEGER,
    kinds.SIZE,
    kinds.LIMIT,
    kinds.SECONDS,
    kinds.TIMEOUT,
    kinds.SWITCH,
    kinds.PATH,
    kinds.choice(Colour),
)
# whatever TOML may hold
RAW = st.recursive(
    st.none() | st.text() | st.integers() | st.floats() | st.booleans(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        (kinds.ADDRESS, "a:1", Address("a", 1)),
        (kinds.ADDRESS, " [::1]:0 ", Address("::1", 0)),
        (kinds.BROKERS, ["a:1", "[::1]:2"], (Address("a", 1), Address("::1", 2))),
        (kinds.BROKERS, " a:1 , b:2 ,", (Address("a", 1), Address("b", 2))),
        (kinds.HOST, " proxy.example.org", "proxy.example.org"),
        (kinds.INTEGER, 7, 7),
        (kinds.INTEGER, " -7 ", -7),
        (kinds.SIZE, 0, 0),
        (kinds.SIZE, "512", 512),
        (kinds.SIZE, "512B", 512),
        (kinds.SIZE, "3KiB", 3072),
        (kinds.SIZE, "64MiB", 64 * MIB),
        (kinds.SIZE, " 2 gib ", 2048 * MIB),
        (kinds.SIZE, "1TiB", 2**40),
        (kinds.SECONDS, 3, 3.0),
        (kinds.SECONDS, 0.5, 0.5),
        (kinds.SECONDS, "0", 0.0),
        (kinds.SECONDS, "2.5", 2.5),
        (kinds.SECONDS, "250ms", 0.25),
        (kinds.SECONDS, "10 s", 10.0),
        (kinds.SECONDS, "2m", 120.0),
        (kinds.SECONDS, "1H", 3600.0),
        (kinds.SECONDS, float("inf"), float("inf")),
        (kinds.SWITCH, True, True),
        (kinds.SWITCH, "False", False),
        (kinds.PATH, "a/b", Path("a/b")),
        (kinds.choice(Colour), "red", Colour.RED),
    ],
)
def test_a_value_is_read_as_toml_and_as_text(kind, raw, value):
    assert kind.read(raw) == value
    assert type(kind.read(raw)) is type(value)


@pytest.mark.parametrize(
    ("kind", "raw", "reason"),
    [
        *((kinds.ADDRESS, text, "has no") for text in ("a", "a:", "a:b", ":1", "a:70000", "a:-1", "a b:1", "::1:1")),
        (kinds.ADDRESS, "http://a:1", "has no host before its port"),
        (kinds.ADDRESS, 9092, "is no text"),
        (kinds.BROKERS, [], "names no broker"),
        (kinds.BROKERS, " , ", "names no broker"),
        (kinds.BROKERS, {}, "names no broker"),
        (kinds.BROKERS, ["a:1", "b"], "has 'b', which has no port"),
        (kinds.BROKERS, ["a:0"], "has 'a:0', whose port is no broker's"),
        (kinds.BROKERS, [7], "has 7, which is no text"),
        (kinds.HOST, "  ", "is empty"),
        (kinds.HOST, "a\nb", "has characters that nobody can see"),
        (kinds.INTEGER, True, "is no whole number"),
        (kinds.INTEGER, 1.0, "is no whole number"),
        (kinds.INTEGER, "1e3", "is no whole number"),
        (kinds.SIZE, "64MB", "is no size"),
        (kinds.SIZE, "1.5MiB", "is no size"),
        (kinds.SIZE, -1, "is no size"),
        (kinds.SIZE, True, "is no size"),
        (kinds.LIMIT, "0", "lets nothing through"),
        (kinds.SECONDS, -0.001, "is no time to wait"),
        (kinds.SECONDS, float("nan"), "is no time to wait"),
        (kinds.SECONDS, False, "is no time to wait"),
        (kinds.SECONDS, "soon", "is no time to wait"),
        (kinds.SECONDS, "1d", "is no time to wait"),
        (kinds.TIMEOUT, 0, "lets nothing through"),
        (kinds.SWITCH, 1, "is neither true nor false"),
        (kinds.SWITCH, "yes", "is neither true nor false"),
        (kinds.PATH, "", "is empty"),
        (kinds.choice(Colour), "green", "is none of red, blue"),
        (kinds.choice(Colour), [], "is none of red, blue"),
    ],
)
def test_what_is_no_such_value_is_said_behind_it(kind, raw, reason):
    with pytest.raises(Misread) as error:
        kind.read(raw)
    assert str(error.value).startswith(reason)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@given(raw=RAW)
def test_anything_is_a_value_or_misread_and_a_value_is_written_as_it_is_read(kind: Kind, raw: object):
    with suppress(Misread):
        value = kind.read(raw)
        assert kind.read(kind.written(value)) == value


@given(st.floats(0, allow_nan=False))
def test_any_time_is_written_as_it_is_read(seconds: float):
    assert kinds.SECONDS.read(kinds.SECONDS.written(seconds)) == seconds


@pytest.mark.parametrize(
    ("kind", "value", "written"),
    [
        (kinds.SIZE, 64 * MIB, "64MiB"),
        (kinds.SIZE, MIB + 1, f"{MIB + 1}B"),
        (kinds.SIZE, 0, 0),
        (kinds.SECONDS, 90.0, "90s"),
        (kinds.SECONDS, 120.0, "2m"),
        (kinds.SECONDS, 7200.0, "2h"),
        (kinds.SECONDS, 0.25, "0.25s"),
        (kinds.BROKERS, (Address("::1", 2),), ["[::1]:2"]),
        (kinds.choice(Colour), Colour.BLUE, "blue"),
    ],
)
def test_values_are_written_short(kind, value, written):
    assert kind.written(value) == written
