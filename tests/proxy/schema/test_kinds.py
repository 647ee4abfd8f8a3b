from contextlib import suppress
from enum import StrEnum
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.schema import kinds
from proxy.schema.errors import InvalidValue
from proxy.schema.kinds import Kind
from proxy.units import MIB
from tests.proxy.schema.raw import RAW
from tests.tables import each_row


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


KINDS = (
    kinds.INTEGER,
    kinds.SIZE,
    kinds.LIMIT,
    kinds.SECONDS,
    kinds.TIMEOUT,
    kinds.SWITCH,
    kinds.PATH,
    kinds.choice(Colour),
)


@each_row(
    ("kind", "raw", "value"),
    [
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
        (kinds.SECONDS, "1.5d", 129600.0),
        (kinds.SECONDS, "10 minutes", 600.0),
        (kinds.SWITCH, True, True),
        (kinds.SWITCH, "False", False),
        (kinds.PATH, "a/b", Path("a/b")),
        (kinds.PATH, "..", Path("..")),
        (kinds.FILE, "../a", Path("../a")),
        (kinds.choice(Colour), "red", Colour.RED),
    ],
)
def test_a_value_is_read_as_toml_and_as_text(kind, raw, value):
    assert kind.read(raw) == value
    assert type(kind.read(raw)) is type(value)


@each_row(
    ("kind", "raw", "reason"),
    [
        (kinds.INTEGER, True, "is no whole number"),
        (kinds.INTEGER, 1.0, "is no whole number"),
        (kinds.INTEGER, "1e3", "is no whole number"),
        (kinds.SIZE, "64MB", "is no size"),
        (kinds.SIZE, "1.5MiB", "is no size"),
        (kinds.SIZE, -1, "is no size"),
        (kinds.SIZE, True, "is no size"),
        (kinds.LIMIT, "0", "lets nothing through"),
        (kinds.SECONDS, -0.001, "is no duration"),
        (kinds.FILE, ".", "is the path of a folder"),
        (kinds.FILE, "/", "is the path of a folder"),
        (kinds.FILE, "..", "is the path of a folder"),
        (kinds.FILE, "x/..", "is the path of a folder"),
        (kinds.SECONDS, float("inf"), "is too long"),
        (kinds.SECONDS, 1e300, "is too long"),
        (kinds.TIMEOUT, float("inf"), "is too long"),
        (kinds.TIMEOUT, float("nan"), "is no duration"),
        (kinds.TIMEOUT, float("-inf"), "is no duration"),
        (kinds.SECONDS, float("nan"), "is no duration"),
        (kinds.SECONDS, False, "is no duration"),
        (kinds.SECONDS, "soon", "is no duration"),
        (kinds.SECONDS, "1 fortnight", "is no duration"),
        (kinds.TIMEOUT, 0, "lets nothing through"),
        (kinds.SWITCH, 1, "is neither true nor false"),
        (kinds.SWITCH, "yes", "is neither true nor false"),
        (kinds.PATH, " ", "is empty"),
        (kinds.PATH, "a\nb", "has characters that nobody can see"),
        (kinds.PATH, 7, "is no text"),
        (kinds.choice(Colour), "green", "is none of red, blue"),
        (kinds.choice(Colour), [], "is none of red, blue"),
    ],
)
def test_a_bad_value_is_refused_with_a_reason(kind, raw, reason):
    with pytest.raises(InvalidValue) as error:
        kind.read(raw)
    assert str(error.value).startswith(reason)


@each_row("kind", KINDS, ids=lambda kind: kind.name)
@given(raw=RAW)
def test_anything_is_a_value_or_misread_and_a_value_is_written_as_it_is_read(kind: Kind, raw: object):
    with suppress(InvalidValue):
        value = kind.read(raw)
        assert kind.read(kind.written(value)) == value


@given(st.floats(0, 1e18))
def test_any_time_is_written_as_it_is_read(seconds: float):
    assert kinds.SECONDS.read(kinds.SECONDS.written(seconds)) == seconds


@each_row(
    ("kind", "value", "written"),
    [
        (kinds.SIZE, 64 * MIB, "64MiB"),
        (kinds.SIZE, MIB + 1, f"{MIB + 1}B"),
        (kinds.SIZE, 0, 0),
        (kinds.SECONDS, 90.0, "90s"),
        (kinds.SECONDS, 120.0, "2m"),
        (kinds.SECONDS, 7200.0, "2h"),
        (kinds.SECONDS, 0.25, "0.25s"),
        (kinds.choice(Colour), Colour.BLUE, "blue"),
    ],
)
def test_values_are_written_short(kind, value, written):
    assert kind.written(value) == written
