import re
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.schema.toml import dotted, pieces, plain, toml
from tests.tables import each_row


@given(
    st.text(st.characters(exclude_categories=["Cs"]))
    | st.integers(-(2**63), 2**63 - 1)
    | st.booleans()
    | st.floats(allow_nan=False)
    | st.lists(st.text(st.characters(exclude_categories=["Cs"])))
)
def test_toml_reads_what_is_written_as_toml(value):
    assert tomllib.loads(f"x = {toml(value)}")["x"] == value


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=3))
def test_toml_reads_a_place_as_it_is_shown(names):
    found: Any = tomllib.loads(f"{dotted(tuple(names))} = 1")
    for name in names:
        found = found[name]
    assert found == 1


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1))
def test_a_list_is_read_from_flags_as_it_is_written_for_them(values):
    assert pieces(plain(values)) == values


@each_row(
    ("written", "elements"),
    [
        ("a,b", ["a", "b"]),
        ('["a,b", "c"]', ["a,b", "c"]),
        (" ['a,b'] ", ["a,b"]),
        ('["CN=orders,OU=dev", "x"]', ["CN=orders,OU=dev", "x"]),
        ("[]", []),
        ("[::1]:9092,[::2]:9092", ["[::1]:9092", "[::2]:9092"]),
        ("[ab]*,[!c]", ["[ab]*", "[!c]"]),
        ("orders,CN=orders*,!CN=x", ["orders", "CN=orders*", "!CN=x"]),
        ("zone=a", ["zone=a"]),
    ],
)
def test_a_list_in_a_flag_has_commas_or_is_json_or_toml(written, elements):
    assert pieces(written) == elements


@each_row(
    ("written", "wrong"),
    [
        ("CN=orders,OU=dev,O=acme", "has 'OU=dev'"),
        ("my-app,diskless_az=use1-az1", "has 'diskless_az=use1-az1'"),
        ("my\\,app", "has 'my\\\\'"),
        ('"my,app"', "has '\"my'"),
        ('"app"', "has '\"app\"'"),
        ("app[1,2]", "has 'app[1'"),
        ("['a", "begins like a list of JSON or TOML, but is none"),
        ('["a", b]', "begins like a list of JSON or TOML, but is none"),
        ('["a"]\nx = 1', "begins like a list of JSON or TOML, but is none"),
    ],
)
def test_commas_that_may_be_parts_of_elements_are_refused(written, wrong):
    with pytest.raises(ValueError, match=re.escape(wrong)) as error:
        pieces(written)
    if wrong.startswith("has"):
        assert pieces(str(error.value).split("list of JSON, ")[1]) == [written]
