from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.catalog import Codec
from proxy.wire.errors import Malformed
from proxy.wire.language import parse
from tests.tables import each_row

MESSAGE = """
ARequest  key 0  versions 0-1  flexible 1+
  flag: bool
  small: int8
  port: uint16
  rate: float64
  id: uuid
  name: string
  data: bytes?
  short: unsigned_varint32
  counts: []int32
  rows: []
    title: string?
    inner: {}
      value: int64
"""
CODECS = [Codec(parse(MESSAGE)[0], version) for version in (0, 1)]

# path of a value, a wrong value there, and the error's text
WRONG: list[tuple[str, Any, str]] = [
    ("small", 128, "small: 128 is no int8"),
    ("small", "1", "small: str is no int8"),
    ("port", -1, "port: -1 is no uint16"),
    ("rate", "fast", "rate: str is no float64"),
    ("id", b"short", "id: an id of 5 bytes, not 16"),
    ("id", 3, "id: int is no uuid"),
    ("name", b"bytes", "name: bytes is no string"),
    ("name", None, "name: null where a value must stand"),
    ("name", "\udc80", "name: no UTF-8"),
    ("name", "x" * 32768, "name: a string of 32768 bytes"),
    ("data", 7, "data: int is no bytes"),
    ("short", 1 << 31, "short: 2147483648 is no unsigned_varint32"),
    ("counts", [0, 1 << 31], r"counts\[1\]: 2147483648 is no int32"),
    ("counts", 5, "counts: int is no list"),
    ("rows", [{}, {"title": 5}], r"rows\[1\]\.title: int is no string"),
    ("rows", [{}, {}, {"inner": {"value": 1 << 63}}], r"rows\[2\]\.inner\.value: 9223372036854775808 is no int64"),
    ("rows", [{"inner": {"valu": 1}}], r"rows\[0\]\.inner: unknown fields: valu"),
    ("rows", ["text"], r"rows\[0\]: str is no mapping"),
]


@each_row("codec", CODECS, ids=repr)
@each_row(("field", "value", "said"), WRONG)
def test_the_value_that_does_not_fit_is_named(codec: Codec, field: str, value: Any, said: str) -> None:
    with pytest.raises(Malformed, match=f"A v{codec.version}: {said}"):
        codec.encode({field: value})


def test_a_message_that_is_no_mapping_is_an_error() -> None:
    with pytest.raises(Malformed, match="A v0: the message: list is no mapping"):
        CODECS[0].encode([])  # type: ignore[arg-type]


@given(st.text(min_size=1), st.sampled_from(CODECS))
def test_an_encoding_error_quotes_no_values(secret: str, codec: Codec) -> None:
    with pytest.raises(Malformed) as caught:
        codec.encode({"data": b"", "name": "", "rows": [{"title": [secret]}]})
    assert str(caught.value).endswith("rows[0].title: list is no string")
