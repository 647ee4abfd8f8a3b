"""Tests of the types of options: they read what settings read, and refuse in one sentence."""

from __future__ import annotations

from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy import option_types
from proxy.config.log import Format
from proxy.option_types import BROKERS, SIZE, TIME, ReadBy, of_kind
from proxy.schema import addresses, kinds
from proxy.schema.errors import InvalidValue

SECOND = 10**9
OPTION = click.Option(["--given"])


# an argument that is UTF-8: any other one is refused before a kind sees it
UTF_8 = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
TEXTS = UTF_8 | st.sampled_from(["64MiB", "1.5 hours", "250ms", "a:1,b:2", "0", "-1s"])


def read(kind: kinds.Kind, raw: str) -> tuple[Any, str]:
    """The value and no fault, or no value and the fault."""
    try:
        return kind.read(raw), ""
    except InvalidValue as error:
        return None, str(error)


@pytest.mark.parametrize(
    ("option", "kind", "scale"),
    [(SIZE, kinds.LIMIT, 1), (TIME, kinds.SECONDS, SECOND), (BROKERS, addresses.BROKERS, None)],
    ids=["SIZE", "TIME", "BROKERS"],
)
@given(raw=TEXTS)
def test_an_option_reads_what_a_setting_reads(option: ReadBy, kind: kinds.Kind, scale: int | None, raw: str) -> None:
    wanted, fault = read(kind, raw)
    if fault:
        with pytest.raises(click.BadParameter) as refused:
            option.convert(raw, OPTION, None)
        assert refused.value.message.startswith(f"{raw!r} {fault}; right would be --given ")
    else:
        assert option.convert(raw, OPTION, None) == (wanted if scale is None else round(wanted * scale))


@pytest.mark.parametrize(
    ("option", "metavar"),
    [
        (SIZE, "SIZE"),
        (TIME, "TIME"),
        (BROKERS, "HOST:PORT[,...]"),
        (of_kind(kinds.choice(Format), "json"), "|".join(Format)),
    ],
    ids=["SIZE", "TIME", "BROKERS", "choice"],
)
def test_help_names_the_kind_of_value(option: ReadBy, metavar: str) -> None:
    made = click.Option(["--given"], type=option)
    record = made.get_help_record(click.Context(click.Command("any", params=[made])))
    assert record is not None
    assert record[0] == f"--given {metavar}"


def test_bytes_that_are_no_text_are_refused_as_such() -> None:
    with pytest.raises(click.BadParameter, match="is no text: not UTF-8"):
        SIZE.convert("1\udcff", OPTION, None)


@pytest.mark.parametrize(
    ("option", "least", "most"),
    [
        (option_types.COUNT, 0, 2**63 - 1),
        (option_types.NUMBER, 0, 2**63 - 1),
        (option_types.POSITION, 1, 2**63 - 1),
        (option_types.ROWS, 1, 100_000),
    ],
    ids=["COUNT", "NUMBER", "POSITION", "ROWS"],
)
def test_a_range_ends_where_what_is_counted_ends(option: Any, least: int, most: int) -> None:
    assert [option.convert(str(number), OPTION, None) for number in (least, most)] == [least, most]
    for beyond, fault in ((least - 1, f"less than {least}"), (most + 1, f"more than {most}")):
        with pytest.raises(click.BadParameter, match=f"^'{beyond}' is {fault}; right would be --given "):
            option.convert(str(beyond), OPTION, None)


@pytest.mark.parametrize("option", [option_types.COUNT, option_types.POSITION, option_types.ROWS, option_types.NUMBER])
@pytest.mark.parametrize("written", ["many", "1.5", "", "1e3"])
def test_what_is_no_number_is_refused_with_a_right_one(option: Any, written: str) -> None:
    with pytest.raises(click.BadParameter) as refused:
        option.convert(written, OPTION, None)
    said = f"{written!r} is no whole number; right would be --given "
    assert refused.value.message.startswith(said)
    assert option.convert(refused.value.message.removeprefix(said), OPTION, None) >= 0


def test_the_right_value_of_an_argument_stands_without_a_name() -> None:
    with pytest.raises(click.BadParameter, match=r"right would be 1GiB$"):
        SIZE.convert("x", click.Argument(["given"]), None)
