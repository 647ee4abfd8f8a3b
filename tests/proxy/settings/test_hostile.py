"""Tests of settings of any nesting, number and size: the result is settings, or a list of error lines."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from proxy.config import ClusterSettings, LiveSettings, LogSettings, ProxySettings
from proxy.config.tls import ListenerTls, UpstreamTls
from proxy.schema.errors import BadSetting
from proxy.schema.flags import FLAGS
from proxy.schema.keys import keys_of
from proxy.schema.toml import dotted, toml
from proxy.settings.load import ReadResult, read
from proxy.settings.reader import LONGEST_LINE
from proxy.settings.show import as_file, listing
from proxy.settings.sources import PREFIX, variable_of
from recorder.capture.session import CaptureSettings
from tests.sweeps import examples

SECTIONS = (
    ((), ProxySettings),
    (("log",), LogSettings),
    (("live",), LiveSettings),
    (("clusters", "main"), ClusterSettings),
    (("clusters", "west"), ClusterSettings),
    (("clusters", "main", "tls"), ListenerTls),
    (("clusters", "main", "tls", "upstream"), UpstreamTls),
    (("capture",), CaptureSettings),
)
PLACES = [(*place, *key) for place, section in SECTIONS for key in keys_of(section)]


def many(text: str) -> st.SearchStrategy[str]:
    """A few of these values, or thousands."""
    return st.sampled_from([1, 2, 19, 20, 400, 4300, 5000]).map(lambda count: text * count)


NUMBERS = st.one_of(
    st.integers().map(str),
    st.floats().map(repr),
    many("9"),
    many("9").map(lambda digits: "-" + digits),
    many("f").map(lambda digits: "0x" + digits),
    st.sampled_from(["1e400", "1e-400", "-0.0", "+inf", "-nan", "1979-05-27T07:32:00Z", "07:32:00", "1979-05-27"]),
)
TEXTS = st.one_of(
    st.text(max_size=20),
    many("9"),
    many("9").map(lambda digits: digits + "s"),
    many("9").map(lambda digits: digits + "TiB"),
    many("9").map(lambda digits: "a:" + digits),
    many("9").map(lambda digits: "10.0.0.0/" + digits),
    many("a:1,"),
    many("*"),
    many("["),
    st.sampled_from(["", " ", "true", "info", "sni", "kafka-0.7", "a:1", "0.0.0.0:1", "[::1]:1", "{node_id}:1", "!"]),
)
VALUES = st.recursive(
    st.one_of(NUMBERS, TEXTS.map(toml), st.sampled_from(["true", "false", "[]", "{}"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        inner.map(lambda item: f"{{ a = {item} }}"),
        st.tuples(inner, st.sampled_from([10, 200, 3000])).map(lambda nest: "[" * nest[1] + nest[0] + "]" * nest[1]),
    ),
    max_leaves=3,
)
NAMES = st.one_of(
    st.sampled_from(PLACES),
    st.tuples(st.sampled_from(PLACES), st.text(max_size=8)).map(lambda named: (*named[0], named[1])),
    st.lists(st.text(max_size=8), min_size=1, max_size=40).map(tuple),
    many("a").map(lambda name: ("clusters", name, "listen")),
).map(dotted)
LINES = st.lists(st.tuples(NAMES, VALUES).map(lambda both: f"{both[0]} = {both[1]}"), max_size=6)
HEADS = st.sampled_from(['clusters.main.upstream = "a:1"\nclusters.main.listen = "127.0.0.1:0"\n', ""])


def outcome(file: Path | None, flags: dict[str, Any], environment: dict[str, str]) -> ReadResult:
    try:
        return read(file, flags, environment)
    except BadSetting as error:
        return ReadResult(error.lines, None, ())


def assert_sentences(reading: ReadResult) -> None:
    assert (reading.loaded is None) == bool(reading.error_lines)
    for line in reading.error_lines:
        assert line == line.strip()
        assert "\n" not in line
        assert len(line) <= LONGEST_LINE
        assert "Traceback" not in line
        assert "Exceeds the limit" not in line
    if reading.loaded is not None:
        assert [*listing(reading.loaded.effective)]
        assert [*as_file(reading.loaded.effective)]


@examples(100, suppress_health_check=[HealthCheck.too_slow])
@given(HEADS, LINES)
def test_any_settings_file_gives_settings_or_error_lines(head, lines):
    with TemporaryDirectory() as folder:
        file = Path(folder) / "wiretap.toml"
        file.write_text(head + "\n".join(lines))
        assert_sentences(outcome(file, {}, {}))


VARIABLES = st.dictionaries(
    st.one_of(
        st.sampled_from(PLACES).map(variable_of),
        st.text("ABC_1", max_size=10).map(PREFIX.__add__),
        many("A__").map(PREFIX.__add__),
    ),
    TEXTS,
    max_size=4,
)


@given(VARIABLES)
def test_any_environment_gives_settings_or_error_lines(variables):
    assert_sentences(outcome(None, {}, variables))


@given(st.dictionaries(st.sampled_from([name for name in FLAGS if name != "node"]), TEXTS), st.lists(TEXTS, max_size=3))
def test_any_flags_give_settings_or_error_lines(flags, nodes):
    assert_sentences(outcome(None, flags | {"node": tuple(nodes)}, {}))


@pytest.mark.parametrize(
    "text",
    ["drain = " + "9" * 400, "drain = " + "9" * 5000, "a = " + "[" * 1000 + "]" * 1000, "drain = 0x" + "f" * 5000],
    ids=["400 digits", "5000 digits", "nesting", "hexadecimal"],
)
def test_a_number_with_very_many_digits_is_reported_in_one_line(text, tmp_path):
    (tmp_path / "wiretap.toml").write_text(text)
    with suppress(BadSetting):
        reading = read(tmp_path / "wiretap.toml", None, {})
        assert reading.error_lines[0].startswith("drain = ")
        assert reading.error_lines[0].endswith('is too long; right would be drain = "10s"')
