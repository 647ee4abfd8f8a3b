"""Tests of `kafka-wiretap inspect` from the command line."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from proxy.wire import kafka07, records
from proxy.wire.keys import API_VERSIONS, OFFSET_COMMIT
from recorder import extras
from recorder.capture.compactor import compact
from recorder.capture.session import RecordSettings
from recorder.capture.tap import open_tap
from recorder.inspect.commands import inspect
from recorder.inspect.masked import LOGINS, SETTINGS
from tests.recorder.capture.record_traffic import RULES, Planted, ruled_talk
from tests.recorder.capture.traffic import Player

Make = Callable[..., dict[str, Any]]


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(inspect, [str(argument) for argument in arguments])


def lines(*arguments: str | Path) -> list[str]:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


@pytest.mark.parametrize("rest", [(), ("capture",)], ids=["alone", "with a folder"])
def test_a_misspelt_command_is_called_one(tmp_path, rest):
    result = run("framez", *rest)
    assert result.exit_code == 2
    assert result.stderr.endswith("No such command 'framez'. Did you mean 'frames'?\n")


def test_a_folder_that_is_called_nearly_as_a_command_is_a_folder(tmp_path, monkeypatch):
    (tmp_path / "frame").mkdir()
    monkeypatch.chdir(tmp_path)
    assert "holds no capture" in run("frame").stderr


def objects(*arguments: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines(*arguments, "--json")]


def test_a_folder_alone_asks_for_its_summary(folder: Path) -> None:
    assert lines(folder) == lines("summary", folder)
    text = "\n".join(lines(folder))
    assert "20261121T120000Z " in text
    assert "Fetch" in text
    assert "queue_full" in text


def test_the_summary_counts_sessions_apis_notes_and_gaps(folder: Path) -> None:
    (found,) = objects("summary", folder)
    (session,) = found["sessions"]
    assert (session["frames"], session["connections"]) == (11, 3)
    assert (session["first"], session["last"]) == ("2026-11-21T12:00:00.000000Z", "2026-11-21T12:00:06.000000Z")
    assert found["apis"]["Fetch"]["request"]["frames"] == 2
    assert found["apis"]["Fetch"]["response"]["frames"] == 1
    assert found["apis"]["api 2000"]["request"]["frames"] == 1
    assert found["apis"]["token"]["token"]["frames"] == 1
    assert found["notes"] == {"unknown_api": 1}
    assert found["masked"] == {LOGINS: 2, SETTINGS: 1}
    assert [(gap["cause"], gap["frames"], gap["bytes"]) for gap in found["gaps"]] == [("queue_full", 12, 3456)]


def test_frames_come_in_the_order_of_their_arrival(folder: Path) -> None:
    ids = [line["id"].split("/", 1)[1] for line in objects("frames", folder)]
    assert ids == ["1/0", "1/1", "2/0", "2/1", "1/2", "1/3", "1/4", "1/6", "2/3", "2/4", "3/0"]


def test_frames_are_lines_below_a_header_without_colours(folder: Path) -> None:
    header, first, *rest = lines("frames", folder)
    assert header.split()[:2] == ["time", "(UTC)"]
    assert first.split()[:5] == ["2026-11-21", "12:00:00.000000", "1/0", "127.0.0.1:50001", "->"]
    assert len(rest) == 10
    assert "\x1b" not in "".join(rest)


@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        (["--api", "fetch"], ["1/2", "1/3", "1/6"]),
        (["--api", "1"], ["1/2", "1/3", "1/6"]),
        (["--api", "2000"], ["2/4"]),
        (["--api", "api 2000"], ["2/4"]),
        (["--api", "Fetch", "--api", "Produce", "--kind", "request"], ["1/2", "1/4", "1/6"]),
        (["--connection", "2", "--kind", "response"], ["2/1", "2/3"]),
        (["--client", "admin"], ["2/0", "2/1", "2/3"]),
        (["--client", "127.0.0.1:50003"], ["3/0"]),
        (["--client", "127.0.0"], []),
        (["--client", "127.0.0.1", "--limit", "2"], ["1/0", "1/1"]),
        (["--kind", "token"], ["3/0"]),
        (["--since", "2026-11-21T12:00:03", "--until", "2026-11-21T12:00:04"], ["1/6", "2/3"]),
        (["--since", "2026-11-21T13:00:05+01:00"], ["2/4", "3/0"]),
        (["--since", "12:00:05"], ["2/4", "3/0"]),
        (["--since", "-1500ms", "--until", "-1s"], ["2/4"]),
        (["--since=-1s"], ["2/4", "3/0"]),
        (["--since", "9999-01-01"], []),
        (["--since", "0001-01-01", "--limit", "1"], ["1/0"]),
        (["--session", "20261121", "--limit", "1"], ["1/0"]),
        (["--session", "other"], []),
        (["--limit", "0"], []),
    ],
)
def test_filters_leave_what_they_name(folder: Path, filters: list[str], ids: list[str]) -> None:
    assert [line["id"].split("/", 1)[1] for line in objects("frames", folder, *filters)] == ids


@pytest.mark.parametrize(("command", "what"), [("frames", "frame"), ("exchanges", "exchange")])
def test_standard_error_says_that_no_line_passes_the_filters(folder: Path, command: str, what: str) -> None:
    result = run(command, folder, "--client", "no body", "--api", "fetch", "--since", "12:00:01")
    assert result.stderr == (
        f"note: no {what} passes --api Fetch --client 'no body' --since 2026-11-21T12:00:01: the capture holds frames "
        "from 2026-11-21 12:00:00 to 2026-11-21 12:00:06 UTC, of DescribeConfigs, Fetch, Metadata, Produce, "
        "SaslAuthenticate, api 2000\n"
    )
    assert run(command, folder, "--client", "nobody", "--json").stdout == ""
    assert run(command, folder, "--limit", "1").stderr == ""


def test_an_empty_list_does_not_fail_because_of_a_file_outside_its_time(folder: Path) -> None:
    later = folder / "frames" / "date=2026-11-21" / "hour=15"
    later.mkdir()
    (later / "s-1-1.parquet").write_bytes(b"no parquet")
    result = run("frames", folder, "--client", "nobody", "--until", "2026-11-21T14:00")
    assert result.exit_code == 0
    assert result.stderr == "note: no frame passes --client nobody --until 2026-11-21T14:00:00\n"


@pytest.mark.parametrize("kind", ["bytes", "Token"])
def test_a_kind_of_frames_that_lists_show_as_their_api_is_asked_for_as_a_kind(folder: Path, kind: str) -> None:
    result = run("frames", folder, "--api", kind)
    assert result.exit_code == 2
    right = f"right would be inspect frames --kind {kind.lower()}\n"
    assert result.stderr.endswith(f"'{kind}' is a kind of frames that are of no API; {right}")


@pytest.mark.parametrize(
    ("api", "ids"),
    [
        ("0.7/fetch", ["9/0"]),
        ("0.7/MultiProduce", ["9/1"]),
        ("fetch", ["1/2", "1/3", "1/6"]),
        ("1", ["1/2", "1/3", "1/6", "9/0"]),
        ("3", ["1/0", "1/1", "9/1"]),
    ],
)
def test_an_apis_name_says_its_dialect_and_its_number_does_not(
    folder: Path, make_request: Callable[..., Any], written: Callable[..., None], api: str, ids: list[str]
) -> None:
    old = {"dialect": "kafka-0.7", "api_version": None, "session": "20261121T120000Z-old"}
    rows = [make_request(9, 9, number, 3, 12) | old | {"api_key": key} for number, key in enumerate((1, 3))]
    written(folder, "frames", rows)
    found = [json.loads(line)["id"] for line in lines("frames", folder, "--api", api, "--json")]
    assert sorted(name.partition("/")[2] for name in found) == ids


def test_exchanges_are_listed_as_they_end_and_the_open_ones_last(folder: Path) -> None:
    found = objects("exchanges", folder, "--connection", "1")
    assert [(line["api"], line["outcome"]) for line in found] == [
        ("Metadata", "answered"),
        ("Fetch", "answered"),
        ("Produce", "one_way"),
        ("Fetch", "unanswered"),
    ]
    assert found[1]["latency_ns"] == 250_000_000
    assert [line.get("errors") for line in found] == [{}, {"OFFSET_OUT_OF_RANGE": 1}, None, None]


def test_exchanges_name_their_errors_unasked(folder: Path) -> None:
    told = lines("exchanges", folder, "--api", "Fetch")[1]
    assert told.endswith("app, OFFSET_OUT_OF_RANGE")


def test_a_long_poll_is_shown_as_one(
    folder: Path, written: Callable[..., None], make_request: Any, make_response: Any
) -> None:
    asked = make_request(8, 4, 0, 1, 12, values={"max_wait_ms": 500})
    written(folder, "frames", [asked, make_response(8.5, 4, 1, 1, 12)], first=2)
    assert lines("exchanges", folder, "--connection", "4")[1].endswith("app, long poll: empty, 500 ms allowed")
    (found,) = objects("exchanges", folder, "--connection", "4")
    assert (found["wait"], found["allowed_ms"]) == ("empty", 500)


def test_with_errors_only_those_are_listed(folder: Path) -> None:
    (found,) = objects("exchanges", folder, "--errors")
    assert (found["api"], found["errors"]) == ("Fetch", {"OFFSET_OUT_OF_RANGE": 1})
    assert len(lines("exchanges", folder, "--errors")) == 2


@pytest.fixture
def rebalance(folder: Path, written: Callable[..., None], make_request: Any, make_response: Any) -> Path:
    """The capture with a normal error, and with a normal error beside another one."""
    refused = {"error_code": 35, "api_keys": []}
    rows = [make_request(7, 4, 0, API_VERSIONS, 0), make_response(7.5, 4, 1, API_VERSIONS, 0, values=refused)]
    both = [{"partition_index": number, "error_code": code} for number, code in enumerate((27, 22))]
    commit = {"topics": [{"name": "t", "partitions": both}]}
    rows += [make_request(8, 4, 2, OFFSET_COMMIT, 2), make_response(8.5, 4, 3, OFFSET_COMMIT, 2, values=commit)]
    written(folder, "frames", rows, first=2)
    return folder


def test_normal_errors_are_called_so_and_left_out_of_the_list_of_errors(rebalance: Path) -> None:
    assert lines("exchanges", rebalance, "--connection", "4")[1].endswith("app, UNSUPPORTED_VERSION (normal)")
    result = run("exchanges", rebalance, "--errors")
    _, fetch, commit = result.stdout.splitlines()
    assert fetch.endswith("OFFSET_OUT_OF_RANGE")
    assert commit.endswith("REBALANCE_IN_PROGRESS (normal), ILLEGAL_GENERATION")
    note = "note: left out: 1 exchange with normal errors only; --all-errors lists them, too\n"
    assert result.stderr == note
    assert run("exchanges", rebalance, "--errors", "--json").stderr == note


def test_all_errors_are_listed_when_all_are_asked_for(rebalance: Path) -> None:
    result = run("exchanges", rebalance, "--all-errors", "--json")
    assert (len(result.stdout.splitlines()), result.stderr) == (3, "")
    assert "  errors: UNSUPPORTED_VERSION (normal)" in lines("show", rebalance, "4/1")


@pytest.fixture
def heads(tmp_path: Path, written: Callable[..., None], make_request: Any, make_response: Any) -> Path:
    """The rows of a failed exchange that was recorded with `bodies = "head"`."""
    failed = make_response(1, 1, 1, 3, 12, values={"topics": [{"error_code": 3, "name": "t", "partitions": []}]})
    left = {"frame": failed["frame"][:4], "stored": 4, "omitted": [{"start": 4, "length": failed["size"] - 4}]}
    written(tmp_path, "frames", [make_request(0, 1, 0, 3, 12), failed | left])
    return tmp_path


def test_errors_that_were_not_kept_are_not_reported_as_none(heads: Path) -> None:
    assert lines("exchanges", heads)[1].endswith("app, errors not kept")
    (found,) = objects("exchanges", heads)
    assert (found["errors"], found["unread"]) == (None, "omitted")
    result = run("exchanges", heads, "--errors")
    assert result.stderr.splitlines() == [
        "note: no exchange passes --errors: the capture holds frames from 2026-11-21 12:00:00 to 2026-11-21 12:00:01 "
        "UTC, of Metadata",
        "note: of 1 response nobody can tell whether it holds errors (omitted: 1)",
    ]
    assert run("exchanges", heads, "--errors", "--json").stderr == result.stderr
    assert "  errors: not kept" in lines("show", heads, "1/1")


def test_an_unanswered_exchange_is_marked_in_its_line(folder: Path) -> None:
    assert lines("exchanges", folder, "--api", "Fetch")[-1].endswith("app, unanswered")


def test_show_decodes_a_frame_as_text(folder: Path) -> None:
    text = lines("show", folder, "1/3")
    assert text[0] == "20261121T120000Z-abc/1/3  Fetch response version 12"
    assert "        - partition_index: 0" in text
    assert "          error_code: 1 OFFSET_OUT_OF_RANGE" in text
    assert "            - why: a batch that is cut" in text
    assert f"              bytes: 100 bytes: {'r' * 32!r} ..." in text


def test_show_decodes_several_frames_as_lines_of_json(folder: Path) -> None:
    request, response = (json.loads(line) for line in lines("show", folder, "1/0", "1/1", "--json"))
    assert (request["kind"], request["correlation_id"]) == ("request", 7)
    assert response["body"]["cluster_id"] == "demo"
    assert response["body"]["controller_id"] == 1


def test_messages_that_a_fetch_of_0_7_brought_have_the_logs_offsets(
    folder: Path, make_request: Make, make_response: Make, written: Callable[..., None]
) -> None:
    """Each message takes 12 bytes. Requests are pipelined, in two sessions; each response has its own request."""
    found = b"\0\0" + kafka07.messages.message_set([b"aa", b"bb"])
    asked = [kafka07.Fetch("t", 0, 12, 99), kafka07.Fetch("t", 1, 120, 99)]
    multi = kafka07.MultiFetch(tuple(asked)), kafka07.MultiFetchResponse(0, (kafka07.FetchResponse(0, found[2:]),) * 2)
    old = {"dialect": "kafka-0.7", "api_version": None, "session": "20261121T120000Z-old"}
    fetch, multifetch = old | {"api_key": 1}, old | {"api_key": 2}
    requests = [fetch | {"frame": kafka07.encode_request(one)} for one in asked]
    requests.append(multifetch | {"frame": kafka07.encode_request(multi[0])})
    responses = [fetch | {"frame": found}] * 2 + [multifetch | {"frame": kafka07.encode_response(multi[1])}]
    rows = [make_request(9, 9, n, 3, 12, exchange=n) | row for n, row in enumerate(requests)]
    rows += [make_response(10, 9, 3 + n, 3, 12, exchange=n) | row for n, row in enumerate(responses)]
    later = [row | {"session": "20261121T120000Z-older", "frame": requests[1]["frame"]} for row in rows[:1]]
    written(folder, "frames", rows)
    written(folder, "frames", later)
    told = [json.loads(line)["body"] for n in (3, 4, 5) for line in lines("show", folder, f"9/{n}", "--json")]
    offsets = [[one["offset"] for one in body["messages"]] for body in (*told[:2], *told[2]["parts"])]
    assert offsets == [[12, 24], [120, 132], [12, 24], [120, 132]]
    assert "    - offset: 12" in lines("show", folder, "9/3")


def test_long_bytes_are_cut_and_say_so(folder: Path) -> None:
    (told,) = (json.loads(line) for line in lines("show", folder, "1/3", "--json", "--bytes", "3"))
    records = told["body"]["responses"][0]["partitions"][0]["records"]
    assert records[0]["bytes"] == {"length": 100, "base64": "cnJy", "text": "rrr", "cut": True}


def test_masked_values_are_named_and_never_shown_as_zeros(folder: Path) -> None:
    assert "  auth_bytes: masked, 11 bytes" in lines("show", folder, "2/0")
    (told,) = (json.loads(line) for line in lines("show", folder, "2/3", "--json"))
    config = told["body"]["results"][0]["configs"][0]
    assert (config["name"], config["value"]) == ("password", {"masked": 7})
    dump = " ".join(line[:58] for line in lines("show", folder, "2/0", "--hex"))
    assert dump.split().count("**") == 11


def test_an_exchange_is_both_of_its_frames_below_what_they_share(folder: Path) -> None:
    text = lines("show", folder, "1/e1")
    session = "20261121T120000Z-abc"
    assert text[0] == f"{session}/1/e1  Fetch exchange: answered after 250 ms, OFFSET_OUT_OF_RANGE"
    frames = [line for line in text if line.startswith(session)][1:]
    assert frames == [f"{session}/1/2  Fetch request version 12", f"{session}/1/3  Fetch response version 12"]
    (told,) = (json.loads(line) for line in lines("show", folder, "1/e1", "--json"))
    assert (told["errors"], told["wait"], told["outcome"]) == ({"OFFSET_OUT_OF_RANGE": 1}, "full", "answered")
    assert [told[kind]["id"] for kind in ("request", "response")] == [f"{session}/1/2", f"{session}/1/3"]
    assert told["request"]["body"]["session_id"] == 3
    dumps = lines("show", folder, "1/e1", "--hex")
    assert [line for line in dumps if line.startswith(session)] == [f"{session}/1/2", f"{session}/1/3"]


def test_an_exchange_without_its_answer_is_the_request_alone(folder: Path) -> None:
    text = lines("show", folder, "1/e3")
    assert text[0].endswith("/1/e3  Fetch exchange: unanswered: no response to it is in the capture")
    assert sum(line.startswith("2026") for line in text) == 2


def test_a_connection_is_described_by_its_events_and_its_apis(folder: Path) -> None:
    text = lines("show", folder, "1")
    assert text[0] == "20261121T120000Z-abc/1  connection, 6 frames, 306 B"
    assert "  2026-11-21 12:00:00.000000 gap queue_full, 12 frames lost" in text
    assert "  Fetch: 2 exchanges, 1 unanswered, OFFSET_OUT_OF_RANGE x1" in text
    assert "  Produce: 1 exchange, 1 one way" in text
    (told,) = (json.loads(line) for line in lines("show", folder, "20261121T/1", "2", "--json")[:1])
    assert told["apis"]["Fetch"]["outcomes"] == {"answered": 1, "unanswered": 1}
    assert [event["kind"] for event in told["events"]] == ["gap", "opened"]


def test_show_prints_why_a_frame_can_not_be_decoded(folder: Path) -> None:
    assert "  (api 2000 version 3 is not in the catalog)" in lines("show", folder, "2/4")
    assert "  (no frame of Kafka's: token)" in lines("show", folder, "3/0")


def test_a_hex_dump_shows_offsets_bytes_and_text(folder: Path) -> None:
    first, *_ = lines("show", folder, "2/4", "--hex")
    assert first == "00000000  07 d0 00 03 00 00 00 07 00 03 61 70 70 2d 73 65  ..........app-se"
    assert lines("show", folder, "2/4", "--hex", "--bytes", "16")[-1] == "... 4 bytes more"


def test_each_of_several_hex_dumps_has_its_id_above(folder: Path) -> None:
    one, other = (lines("show", folder, name, "--hex") for name in ("2/4", "1/0"))
    session = "20261121T120000Z-abc"
    assert lines("show", folder, "2/4", "1/0", "--hex") == [f"{session}/2/4", *one, f"{session}/1/0", *other]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["frames", "{}", "--api", "fetsh"], "no API is called 'fetsh'; near: Fetch"),
        (["frames", "{}", "--since", "noon"], "right would be --since 2026-11-21T13:48 (UTC), 13:48 or -5m"),
        (["show", "{}", "x"], "'x' is no id; right would be 4 (a connection), 4/e8 (an exchange), 4/17 (a frame) or"),
        (["show", "{}", "1/99"], "no frame 1/99"),
        (["show", "{}", "1/e99"], "no exchange 1/e99"),
        (["show", "{}", "99"], "no connection 99"),
        (["show", "{}", "other/1/e0"], "no exchange other/1/e0"),
        (["show", "{}", "1", "--hex"], "--hex shows frames and exchanges"),
        (["frames", "nowhere"], "nowhere does not exist"),
    ],
)
def test_a_mistake_gets_one_line_and_exit_code_2(folder: Path, arguments: list[str], said: str) -> None:
    result = run(*(argument.format(folder) for argument in arguments))
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_a_folder_without_frames_is_reported_as_empty(tmp_path: Path) -> None:
    (tmp_path / "frames").mkdir()
    result = run(tmp_path)
    assert result.exit_code == 2
    assert result.stderr.endswith("holds no frames\n")


def test_the_same_id_in_two_sessions_asks_for_one(
    folder: Path, written: Callable[..., None], make_request: Callable[..., dict[str, Any]]
) -> None:
    written(folder, "frames", [make_request(9, 1, 0, 3, 12, session="20261122T000000Z-def")])
    result = run("show", folder, "1/0")
    assert result.exit_code == 2
    assert "is in several sessions" in result.stderr
    assert lines("show", folder, "20261122/1/0")[0].startswith("20261122T000000Z-def/1/0  Metadata request")


@pytest.mark.real
def test_a_reader_that_leaves_the_pipe_ends_it_quietly(
    folder: Path, written: Callable[..., None], make_request: Callable[..., dict[str, Any]]
) -> None:
    written(folder, "frames", [make_request(n / 1000, 9, n, 3, 12) for n in range(5000)], first=2)
    program = "from recorder.inspect.commands import inspect; inspect()"
    command = [sys.executable, "-c", program, "frames", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""


@pytest.mark.parametrize("command", ["summary", "frames", "exchanges"])
@pytest.mark.parametrize("name", ["20261121T120000Z-abc-1-1.parquet", "part-0001.parquet"])
def test_a_file_that_cannot_be_read_is_named_in_one_line(folder: Path, command: str, name: str) -> None:
    (folder / "frames" / "date=2026-11-21" / "hour=12" / name).write_bytes(b"no parquet")
    result = run(command, folder)
    assert result.exit_code == 1
    assert name in result.stderr
    assert result.stderr.startswith("Error: ")
    assert len(result.stderr.splitlines()) == 1


def ids(*arguments: str | Path) -> list[str]:
    return [line["id"].split("/", 1)[1] for line in objects(*arguments)]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["api == Fetch"], ["1/e1", "1/e3"]),
        (["--where", "api == Fetch", "--where", "error"], ["1/e1"]),
        (["api == Fetch", "--errors"], ["1/e1"]),
        (["topic == t"], ["1/e1"]),
        (["--topic", "t*", "--all-errors"], ["1/e1"]),
        (["--slowest", "1"], ["1/e1"]),
        (["--last", "1", "--connection", "1"], ["1/e3"]),
        (["--sort", "at", "--limit", "2"], ["1/e0", "2/e0"]),
        (["--sort=-at", "--limit", "1"], ["2/e2"]),
        (["at < 12:00:01 and client == app"], ["1/e0"]),
    ],
)
def test_a_filter_and_its_flags_choose_exchanges(folder: Path, arguments: list[str], found: list[str]) -> None:
    assert ids("exchanges", folder, *arguments) == found


@pytest.mark.parametrize("command", ["frames", "exchanges", "records"])
def test_a_wrong_filter_is_pointed_at(folder: Path, command: str) -> None:
    result = run(command, folder, "api == Fetch and topc == t")
    assert result.exit_code == 2
    *_, sentence, shown, caret = result.stderr.splitlines()
    assert sentence == "Error: 'topc' is no field: did you mean topic?"
    assert shown[caret.index("^") :] == "topc == t"


@pytest.mark.parametrize(
    ("arguments", "right"),
    [
        (["-o", "at,topc"], "has no column topc (did you mean topic?); right would be -o at,client_id,topic"),
        (
            ["--sort", "topic"],
            "is nothing to sort by; right would be --sort latency, or -latency for the greatest first",
        ),
        (["--slowest", "1", "--last", "1"], "--slowest and --last ask for different lists: right would be one of them"),
        ([""], "an empty filter names nothing: right would be api == Produce"),
    ],
)
def test_wrong_lists_are_refused_with_what_is_right(folder: Path, arguments: list[str], right: str) -> None:
    result = run("exchanges", folder, *arguments)
    assert result.exit_code == 2
    assert right in result.stderr


def test_columns_are_those_that_are_asked_for(folder: Path) -> None:
    asked = ("exchanges", folder, "topic == t", "-o", "id,topic,error,latency")
    header, line = lines(*asked)
    assert header.split() == ["id", "topic", "error", "latency", "ms"]
    assert line.split() == ["20261121T120000Z-abc/1/e1", "t", "OFFSET_OUT_OF_RANGE", "250"]
    (found,) = objects(*asked)
    assert found["topic"] == ["t"]
    assert lines(*asked, "--csv")[1] == "20261121T120000Z-abc/1/e1,t,OFFSET_OUT_OF_RANGE,250000000"
    by_head = objects("exchanges", folder, "--connection", "1", "--api", "Fetch", "-o", "topic")
    assert [line["topic"] for line in by_head] == [["t"], []]
    assert lines("frames", folder, "--csv", "--limit", "1")[0].startswith("id,at,kind,client,")


def test_what_is_masked_is_counted_where_a_filter_asks_for_it(folder: Path) -> None:
    result = run("exchanges", folder, "--api", "DescribeConfigs", "instance == x")
    assert result.stderr.splitlines()[-1].startswith("note: of 1 exchange nobody can tell whether it passes (")


def test_a_record_is_listed_with_its_reader(
    folder: Path, make_response: Make, make_request: Make, written: Any
) -> None:
    data = records.write_batch([records.Record(7, 1_795_262_400_000, b"k", b"v" * 200, (("h", b"x"),))])
    fetched = {"topic": "t", "partitions": [{"partition_index": 3, "records": data}]}
    rows = [make_request(30, 5, 0, 1, 12), make_response(31, 5, 1, 1, 12, values={"responses": [fetched]})]
    written(folder, "frames", rows, first=2)
    (found,) = objects("records", folder, "--topic", "t", "--key", "k", "--grep", "^v+$")
    assert (found["partition"], found["offset"], found["key"], found["produced"]) == (3, 7, "k", None)
    assert found["headers"] == [{"name": "h", "value": "x"}]
    assert [(one["client_id"], one["group"]) for one in found["fetched"]] == [("app", None)]
    text = lines("records", folder, "--topic", "t")
    assert text[0].startswith("t-3 offset 7, key k, value vvv")
    assert text[-1].endswith("by app (127.0.0.1:50005), 5/e0, group unknown")
    assert lines("records", folder, "--topic", "t", "--csv")[1].endswith(",,,,app (?)")
    assert objects("records", folder, "--key", "other") == []
    assert objects("records", folder, "--grep", "nowhere") == []


def test_a_regular_expression_that_is_none_is_refused(folder: Path) -> None:
    result = run("records", folder, "--grep", "(")
    assert result.exit_code == 2
    assert "is no regular expression" in result.stderr


@pytest.fixture
def with_schemas(folder: Path, written: Callable[..., None], make_request: Make, make_response: Make) -> Path:
    """The capture with records that name schemas, and a folder with one of these schemas in it."""
    (folder / "schemas").mkdir()
    schema = '{"type": "record", "name": "Order", "fields": [{"name": "note", "type": "string"}]}'
    (folder / "schemas" / "7.avsc").write_text(schema)
    values = [b"\0\0\0\0\7\x0ahe\x1b[m", b"\0\0\0\0\7\x0ahello", b"\0\0\0\0\x08hello", b"\0\0\0\0\7\x0ahel"]
    batch = records.write_batch([records.Record(at, 1_000, b"k", value) for at, value in enumerate(values)])
    asked = {"acks": 1, "topic_data": [{"name": "orders", "partition_data": [{"index": 0, "records": batch}]}]}
    told = {"responses": [{"name": "orders", "partition_responses": [{"index": 0, "base_offset": 0}]}]}
    rows = [make_request(8, 4, 0, 0, 9, values=asked), make_response(8.5, 4, 1, 0, 9, values=told)]
    written(folder, "frames", rows, first=2)
    return folder


def test_records_that_name_a_schema_are_decoded(with_schemas: Path) -> None:
    asked = ("records", with_schemas, "--topic", "orders", "--schema-registry", with_schemas / "schemas")
    found = objects(*asked)
    assert [one["value"] for one in found] == [
        r'{"note": "he\u001b[m"}',
        '{"note": "hello"}',
        "\0\0\0\0\x08hello",
        "\0\0\0\0\7\nhel",
    ]
    missing = {"value": "schema 8: no file 8.avsc, 8.json or 8.proto"}
    broken = {"value": "schema 7: its data don't fit it (EOFError)"}
    assert [one.get("undecoded") for one in found] == [None, None, missing, broken]
    text = "\n".join(lines(*asked))
    assert "\x1b" not in text
    assert "    value not decoded: schema 8: no file 8.avsc, 8.json or 8.proto\n" in text
    # filters see what is shown
    assert [one["offset"] for one in objects(*asked, 'value ~ "*note*hello*"')] == [1]
    assert [one["offset"] for one in objects(*asked, "--grep", 'note": "hel')] == [1]
    assert 'value "{""note"": ""hello""}"' not in text
    assert '"{""note"": ""hello""}"' in lines(*asked, "--csv")[2]


def test_what_is_no_schema_registry_is_one_line(folder: Path) -> None:
    found = run("records", folder, "--schema-registry", "ftp://host")
    assert found.exit_code == 2
    assert found.stderr.splitlines()[-1] == (
        "Error: --schema-registry is neither the URL of a schema registry nor a folder; "
        "right would be http://HOST:8081 or a folder with files such as 7.avsc"
    )


def test_what_decodes_by_schemas_is_an_extra(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extras.MODULES, "schemas", ("fastavro_is_not_here",))
    found = run("records", folder, "--schema-registry", folder)
    assert found.exit_code == 2
    assert found.stderr.startswith("Error: not installed: fastavro_is_not_here; in the project's folder, ")
    assert "-m pip install '.[schemas]'" in found.stderr


def test_records_that_a_rule_has_left_out_are_counted_and_never_shown(tmp_path: Path) -> None:
    planted = Planted(random.Random(2))
    tap = open_tap(tmp_path, RecordSettings(**RULES))
    Player(tap).all_of([ruled_talk(planted, 1, 5000)])
    tap.close()
    compact(tmp_path)
    ids = [f"1/{number}" for number in range(30)]
    for result in (run(tmp_path), run("records", tmp_path), run("show", tmp_path, *ids), run("errors", tmp_path)):
        assert result.exit_code == 0, result.output
        assert not [text for text in planted.hidden if text in result.output.encode()]
    assert "records left out or hashed, by the settings" in run(tmp_path).stdout
    assert re.search(r"not kept: [0-9]+ records that might pass", run("records", tmp_path).stderr)
    assert "its records are not kept" in run("show", tmp_path, *ids).stdout
    asked_for_keys = run("exchanges", tmp_path, "--key", "nobody").stderr
    assert "not_kept: " in asked_for_keys
    assert "malformed" not in asked_for_keys


@pytest.mark.parametrize("command", ["frames", "exchanges", "records", "topics", "clients", "errors", "latency"])
def test_views_of_a_part_of_the_traffic_say_so(tmp_path: Path, command: str) -> None:
    sampled = {("capture", "share"): "0.5", ("capture", "shares", "Fetch"): "0.1", ("capture", "seed"): "7"}
    chosen = {("capture", "only", "topics"): '["orders"]'}
    tap = open_tap(tmp_path, RecordSettings(in_force=sampled | chosen))
    Player(tap).all_of([ruled_talk(Planted(random.Random(2)), 1, 5000)])
    tap.close()
    compact(tmp_path)
    told = " ".join(run(command, tmp_path).stderr.split())
    for one in ("capture.share = 0.5", "capture.shares.Fetch = 0.1"):
        assert f"note: a sample, of which nothing is scaled: {one}" in told
    assert 'note: chosen topics only: capture.only.topics = ["orders"]' in told
    assert "capture.seed" not in told
