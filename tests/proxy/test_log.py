import json
import logging
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.conversation import Cause
from proxy.log import FORMATTERS, KeyFormatter, log, log_to_stderr
from proxy.net.connection.ending import State
from proxy.net.stopping import Urgency


def written(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_an_event_is_one_line_with_time_level_and_keys(capsys):
    log_to_stderr("info")
    log(logging.WARNING, "upstream is down", node=2, upstream="b2:9092")
    (line,) = written(capsys)
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z warning upstream is down  node=2 upstream=b2:9092", line
    )


@pytest.mark.parametrize(
    ("written_as", "shown"), [("text", "event  worker=3 node=2"), ("json", '"worker": 3, "node": 2')]
)
def test_keys_of_every_event_come_first(written_as, shown, capsys):
    log_to_stderr("info", written_as, worker=3)
    log(logging.INFO, "event", node=2)
    assert shown in written(capsys)[0]


NESTED = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(Cause) | st.sampled_from(State) | st.just("a b"),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.just("key"), inner),
)


@pytest.mark.parametrize("written_as", FORMATTERS)
@given(value=NESTED)
def test_no_value_is_written_in_pythons_notation(written_as, value):
    record = logging.LogRecord("x", logging.INFO, "", 0, "event", (), None)
    vars(record)["keys"] = {"key": value}
    line = FORMATTERS[written_as]().format(record)
    assert not re.search(r"None|True|False|[(){}\[\]']|Cause|State|auto", line.removeprefix("{").removesuffix("}"))


@pytest.mark.parametrize("written_as", FORMATTERS)
def test_a_key_without_a_value_is_left_out(written_as, capsys):
    log_to_stderr("info", written_as)
    log(logging.INFO, "node found", node=2, listener=None)
    (line,) = written(capsys)
    assert "listener" not in line
    assert "node" in line


def test_an_event_without_keys_ends_with_its_name(capsys):
    log_to_stderr("info")
    log(logging.INFO, "stopped")
    assert written(capsys)[0].endswith("Z info stopped")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("one", "one"),
        ("two words", '"two words"'),
        ("", '""'),
        ("a=b", '"a=b"'),
        ('say "x"', '"say \\"x\\""'),
        ("line\nbreak", '"line\\nbreak"'),
        ("\x1b[31mred", '"\\u001b[31mred"'),
        ("brök er", '"brök er"'),
        (True, "true"),
        (("a", "b"), '"a, b"'),
        ({"a": (1, False)}, '"a 1, false"'),
        (Cause.IDLE, "idle"),
        (Urgency.NONE, "0"),
        ("\x7f", '"\\u007f"'),
        ("a\u202eb\u3164", '"a\\u202eb\\u3164"'),
        ("C:\\temp", "C:\\temp"),
    ],
)
def test_a_value_can_neither_end_its_line_nor_look_like_another_key(value, shown, capsys):
    log_to_stderr("info")
    log(logging.INFO, "event", key=value)
    (line,) = written(capsys)
    assert line.endswith(f"  key={shown}")


@pytest.mark.parametrize(("level", "seen"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_events_below_the_level_are_not_written(level, seen, capsys):
    log_to_stderr(level)
    for number in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
        log(number, "event")
    assert len(written(capsys)) == seen


def test_other_libraries_are_heard_from_warnings_on(capsys):
    log_to_stderr("debug")
    other = logging.getLogger("some.library")
    other.info("chatter")
    other.warning("trouble")
    (line,) = written(capsys)
    assert line.endswith("warning trouble")


def test_a_fault_of_the_proxys_own_shows_where_it_happened(capsys):
    log_to_stderr("info")
    try:
        raise RuntimeError("what nobody thought of")
    except RuntimeError:
        log(logging.ERROR, "fault in a connection", trace=True, connection=7)
    lines = written(capsys)
    assert lines[0].endswith("error fault in a connection  connection=7")
    assert lines[1].startswith("Traceback")
    assert lines[-1] == "RuntimeError: what nobody thought of"


def test_a_trace_quotes_only_the_projects_own_lines(capsys):
    log_to_stderr("info")
    try:
        raise RuntimeError("a\x1b[2J\n2026-11-21T12:00:00.123Z info forged")
    except RuntimeError:
        log(logging.ERROR, "fault", trace=True)
    assert written(capsys)[-1] == "RuntimeError: a\\u001b[2J\\n2026-11-21T12:00:00.123Z info forged"


def test_a_warning_about_a_peer_has_no_stack_trace(capsys):
    log_to_stderr("info")
    try:
        raise RuntimeError("of a peer")
    except RuntimeError as error:
        log(logging.WARNING, "event", reason=error)
    assert len(written(capsys)) == 1


def test_a_trace_without_an_error_is_left_out():
    record = logging.LogRecord("x", logging.ERROR, "", 0, "event", (), sys.exc_info())
    assert KeyFormatter().format(record).endswith("error event")


def test_asking_for_the_log_again_does_not_write_twice(capsys):
    log_to_stderr("info")
    log_to_stderr("info")
    log(logging.INFO, "event")
    assert len(written(capsys)) == 1


def test_an_event_may_be_an_object_of_json(capsys):
    log_to_stderr("info", "json")
    log(logging.WARNING, "upstream is down", node=2, upstream="b2:9092", known=True, reason=OSError("a\nb"), at=None)
    (line,) = written(capsys)
    event = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", event["at"])
    assert event | {"at": ""} == {
        "at": "",
        "level": "warning",
        "event": "upstream is down",
        "node": 2,
        "upstream": "b2:9092",
        "known": True,
        "reason": "a\nb",
    }


def test_a_fault_is_one_line_of_json_with_its_trace(capsys):
    log_to_stderr("info", "json")
    try:
        raise RuntimeError("why")
    except RuntimeError:
        log(logging.ERROR, "fault", trace=True)
    (line,) = written(capsys)
    assert "RuntimeError: why" in json.loads(line)["trace"]
