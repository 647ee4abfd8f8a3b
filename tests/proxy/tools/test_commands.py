"""Tests of `kafka-wiretap wire` from the command line."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from proxy.tools import commands
from proxy.tools.commands import COMMANDS
from proxy.wire import apis, catalog, embedded, kafka07, records
from proxy.wire.error_codes import ERRORS
from proxy.wire.framing import framed
from proxy.wire.kafka07 import RequestType
from tests.brokers.waiting import PATIENCE
from tests.tables import each_row

REQUEST = catalog.encode_request(3, 12, 7, "me", {"topics": None})
OFFSET_KEY = bytes.fromhex("0001 0001 67 0001 74 00000003")
OFFSET = embedded.encode_blob("OffsetCommitValue", 3, {"offset": 7, "metadata": "m"})
HEAVY = {"trio", "pyarrow", "rich", "pyspark", "prometheus_client", "lz4", "zstandard", "snappy", "opentelemetry"}


def run(*arguments: object, data: bytes | None = None) -> Result:
    return CliRunner().invoke(COMMANDS["wire"], list(map(str, arguments)), input=data, catch_exceptions=False)


def ok(*arguments: object, data: bytes | None = None) -> str:
    result = run(*arguments, data=data)
    assert result.exit_code == 0, result.output
    return result.stdout


def failed(code: int, *arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == code
    assert result.stdout == ""
    return result.stderr.splitlines()[-1]


def test_list_has_a_line_for_every_api() -> None:
    lines = ok("list").splitlines()
    assert len(lines) == 5 + len(apis.api_keys()) + len(RequestType) + len(embedded.names())
    assert lines[4].split() == ["3", "Metadata", "0-13", "9+"]
    assert len(json.loads(ok("list", "--json"))["apis"]) == len(apis.api_keys())
    assert ok("list", "--markdown").startswith("# APIs and versions\n")


def test_show_takes_names_and_keys_and_prints_both_messages_of_the_newest_version() -> None:
    shown = ok("show", "metadata")
    assert [line.split()[0] for line in shown.splitlines() if "  key 3  version 13 of 0-13" in line] == [
        "MetadataRequest",
        "MetadataResponse",
    ]
    assert ok("show", "METADATA", 13) == ok("show", "3") == shown


def test_show_of_one_message_or_as_json() -> None:
    assert ok("show", "fetch", 12, "--response").startswith("FetchResponse  key 1  version 12 of ")
    assert ok("show", "fetch", 12, "--request").startswith("FetchRequest  key 1  version 12 of ")
    assert json.loads(ok("show", "fetch", 12, "--request", "--json"))["name"] == "FetchRequest"


def test_show_of_both_messages_is_what_it_shows_unasked() -> None:
    for both in (("--request", "--response"), ("--response", "--request")):
        assert ok("show", "fetch", 12, *both) == ok("show", "fetch", 12)


def test_show_of_a_request_or_a_response_by_its_own_name_prints_it_alone() -> None:
    assert ok("show", "MetadataResponse", 12) == ok("show", "metadata", 12, "--response")
    assert ok("show", "metadata_request", 12) == ok("show", "metadata", 12, "--request")


def test_show_prints_the_source_that_was_written() -> None:
    assert ok("show", "api_versions", 3, "--response", "--source", "decode").startswith("def decode(buf, at):")
    walk = ok("show", 3, "--response", "--source", "walk", "--path", "topics")
    assert "yield" in walk


def test_show_of_a_message_inside_messages() -> None:
    shown = ok("show", "consumer_protocol_assignment", 1)
    assert shown.startswith("ConsumerProtocolAssignment  version 1 of ")
    assert ok("show", "ConsumerProtocolAssignment", "--source", "encode").startswith("def encode(values):")


def test_decode_reads_hex_a_file_or_a_pipe(tmp_path: Path) -> None:
    file = tmp_path / "frame"
    file.write_bytes(framed(REQUEST))
    shown = ok("decode", "--hex", REQUEST.hex(" "))
    assert json.loads(shown)["client_id"] == "me"
    assert ok("decode", "--file", file) == ok("decode", data=REQUEST) == shown
    assert ok("decode", data=REQUEST.hex().encode() + b"\n") == shown
    assert "--hex or --file, not both" in failed(2, "decode", "--hex", "00", "--file", file)


def test_decode_reads_responses_of_the_version_that_was_asked() -> None:
    frame = catalog.encode_response(3, 12, 7, {"cluster_id": "é"})
    told = ok("decode", "--response", "metadata", 12, data=frame)
    assert json.loads(told)["body"]["cluster_id"] == "é"
    assert "é" in told


def test_the_frames_before_a_bad_one_are_printed() -> None:
    done = run("decode", data=framed(REQUEST) + framed(REQUEST[:-1]))
    assert (done.exit_code, json.loads(done.stdout)["client_id"]) == (1, "me")
    assert done.stderr.endswith("the bytes end before the message does (frame 2 of 2)\n")


def test_an_endless_file_is_read_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "MAX_READ", 1 << 20)
    assert failed(1, "decode", "--file", "/dev/zero") == "Error: more than 1 MiB: nothing longer is read"


def test_an_unknown_api_is_a_value() -> None:
    assert json.loads(ok("decode", "--hex", "07d00003000000070000"))["why"] == "unknown: the catalog has no such api"


def test_secrets_need_to_be_requested() -> None:
    frame = catalog.encode_request(36, 2, 7, "me", {"auth_bytes": b"hunter2"})
    assert "hunter2" not in ok("decode", data=frame)
    assert json.loads(ok("decode", data=frame))["body"] == {"auth_bytes": {"masked": 7}}
    assert "hunter2" in ok("decode", "--show-secrets", data=frame)


def test_a_message_outside_of_frames_is_decoded_by_name() -> None:
    blob = embedded.encode_blob("ConsumerProtocolSubscription", 0, {"topics": ["logs"]})
    told = json.loads(ok("decode", "--as", "consumer_protocol_subscription", "--hex", blob.hex()))
    values = {"topics": ["logs"], "user_data": None}
    assert told == {"message": "ConsumerProtocolSubscription", "version": 0, "values": values}
    data = records.write_batch([records.Record(5, 1000, OFFSET_KEY, OFFSET)])
    (record,) = json.loads(ok("decode", "--batches", "--topic", "__consumer_offsets", data=data))["records"]
    one = json.loads(ok("decode", "--topic", "__consumer_offsets", "--key", OFFSET_KEY.hex(" "), data=OFFSET))
    assert one == {"key": record["key"], "value": record["value"]}
    assert one["key"]["values"] == {"group": "g", "topic": "t", "partition": 3}
    assert one["value"]["values"]["offset"] == 7
    assert json.loads(ok("decode", "--batches", data=data))["records"][0]["offset"] == 5


def test_names_that_kafka_has_given_up_lead_to_todays_and_say_so() -> None:
    for shown in (run("show", "GroupCoordinator", 0), run("show", "consumer_metadata", 0)):
        assert shown.stdout == ok("show", "FindCoordinator", 0)
        assert shown.stderr.endswith(" is called FindCoordinator today\n")
    blob = embedded.encode_blob("ConsumerProtocolAssignment", 0, {}).hex()
    assert ok("decode", "--as", "MemberAssignment", "--hex", blob) == ok(
        "decode", "--as", "ConsumerProtocolAssignment", "--hex", blob
    )
    answer = catalog.encode_response(2, 0, 7, {}).hex()
    assert ok("decode", "--response", "Offsets", 0, "--hex", answer) == ok(
        "decode", "--response", "ListOffsets", 0, "--hex", answer
    )


def test_errors_are_named_where_frames_are_decoded() -> None:
    values = {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "error_code": 6}]}]}
    told = json.loads(ok("decode", "--response", "ListOffsets", 4, data=catalog.encode_response(2, 4, 7, values)))
    (partition,) = told["body"]["topics"][0]["partitions"]
    assert (partition["error_code"], partition["error_name"]) == (6, "NOT_LEADER_OR_FOLLOWER")


def test_errors_lists_all_of_them_or_those_that_are_named() -> None:
    assert len(ok("errors").splitlines()) == 1 + len(ERRORS)
    _, unknown, leader = ok("errors", -1, "NOT_LEADER_OR_FOLLOWER").splitlines()
    assert unknown.split()[:2] == ["-1", "UNKNOWN_SERVER_ERROR"]
    assert leader.split()[:3] == ["6", "NOT_LEADER_OR_FOLLOWER", "yes"]
    (told,) = json.loads(ok("errors", "--json", "NotLeaderForPartitionCode"))
    assert (told["code"], told["retriable"]) == (6, True)


FETCH_07 = kafka07.encode_request(kafka07.Fetch("logs", 1, 12, 300))


def test_frames_of_0_7_are_decoded_when_their_dialect_is_given() -> None:
    told = json.loads(ok("decode", "--dialect", "kafka-0.7", data=framed(FETCH_07)))
    body = {"topic": "logs", "partition": 1, "offset": 12, "max_size": 300}
    assert told == {"kind": "request", "api": "0.7/fetch", "api_key": 1, "body": body}
    answer = kafka07.encode_response(kafka07.FetchResponse(0, kafka07.messages.message(b"v")))
    told = json.loads(ok("decode", "--response", "0.7/fetch", "0.7", data=answer))
    assert (told["kind"], told["api"], told["body"]["messages"][0]["payload"]["text"]) == ("response", "0.7/fetch", "v")
    log = kafka07.messages.message_set([b"one", b"two"])
    lines = ok("decode", "--dialect", "kafka-0.7", "--batches", data=log)
    assert lines.count('"payload"') == 2


def test_show_of_0_7_prints_the_fields_of_both_messages() -> None:
    shown = ok("show", "0.7/fetch")
    assert shown == ok("show", "0.7/FETCH", "0.7")
    assert [line for line in shown.splitlines() if "type 1" in line] == [
        "0.7/fetch request  type 1",
        "0.7/fetch response  type 1",
    ]
    assert json.loads(ok("show", "0.7/offsets", "--response", "--json"))["kind"] == "response"
    assert "never answered" in ok("show", "0.7/produce", "--response")


NO_07 = ("decode", "--dialect", "kafka-0.7", "--hex", "00")
NAMED_07 = "an API of Kafka 0.7 is called 0.7/fetch, and its version is 0.7"
ENDS = "the bytes end before the message does"
# exit code, arguments, and what the line says: a regular expression
REFUSED: list[tuple[int, tuple[object, ...], str]] = [
    # names and versions
    (2, ("show", 2000), "api 2000 is unknown: `kafka-wiretap wire list` lists all$"),
    (2, ("show", "fetch", 99), "Fetch version 99 is unknown; known are 0 to 18$"),
    (
        2,
        ("show", "ConsumerProtocolAssignment", 99),
        r"ConsumerProtocolAssignment version 99 is unknown; known are 0 to \d",
    ),
    (2, ("show", "metadata", 70000), "known are 0 to 13"),
    (2, ("show", "70000"), "no API or message is called '70000'"),
    (2, ("show", "fetsch"), "no API or message is called 'fetsch'; near: Fetch"),
    (2, ("show", "fetch", "x"), "'x' is not a valid integer"),
    (2, ("decode", "--hex", "00", "--response", "metdata", 1), "near: Metadata"),
    (2, ("decode", "--response", "70000", 1, "--hex", "00"), "70000 is not"),
    (1, ("decode", "--response", "metadata", 70000, "--hex", "0000000100"), "70000 is not"),
    (2, ("errors", "--jsn"), "no error is called '--jsn'"),
    (2, ("errors", 6, 9999), "Kafka has no error of code 9999"),
    # options that don't go together
    (2, ("show", "metadata", "--path", "brokers"), "--path goes with --source"),
    (2, ("show", "metadata", "--source", "decode", "--path", "brokers"), "--path goes with --source"),
    (2, ("show", "metadata", "--source", "decode", "--json"), "--source or --json, not both"),
    (2, ("show", 3, "--response", "--source", "project"), "--path throttle_time_ms"),
    (2, ("decode", "--as", "Fetch", "--hex", "00"), "is an API"),
    (2, ("decode", "--as", "ConsumerProtocolAssignment", "--batches", "--hex", "00"), "one of them"),
    (2, ("decode", "--response", "fetch", 1, "--batches", "--hex", "00"), "one of them"),
    (2, ("decode", "--batches", "--key", "00", "--hex", "00"), "--key goes with --topic"),
    # bytes
    (1, ("decode", "--hex", REQUEST[:-1].hex()), rf"Metadata v12 at byte \d+: {ENDS}$"),
    (2, ("decode", "--hex", "xx"), "no hex: 'x' stands in it; right would be two digits a byte, such as 0003000c$"),
    (2, ("decode", "--topic", "__consumer_offsets", "--key", "xx", "--hex", "00"), "no hex"),
    (1, ("decode", "--batches", "--hex", REQUEST.hex()), "no record batch: "),
    (1, ("decode", "--batches", "--hex", ""), "no record batch: no bytes$"),
    (1, ("decode", "--topic", "__consumer_offsets", "--key", "0001", "--hex", ""), f".* at byte 2: {ENDS}$"),
    (1, ("decode", "--as", "ConsumerProtocolAssignment", "--hex", "000000"), ENDS),
    # Kafka 0.7
    (2, ("show", "fetch", "0.7"), f"{NAMED_07}$"),
    (2, ("show", "0.7/fetch", 1), f"{NAMED_07}$"),
    (2, ("decode", "--response", "fetch", "0.7", "--hex", "00"), f"{NAMED_07}$"),
    (2, ("decode", "--response", "0.7/fetch", 1, "--hex", "00"), f"{NAMED_07}$"),
    (2, ("decode", "--dialect", "kafka-0.7", "--response", "fetch", 1, "--hex", "00"), f"{NAMED_07}$"),
    (2, (*NO_07, "--as", "ConsumerProtocolAssignment"), "neither messages inside messages nor topics"),
    (2, (*NO_07, "--topic", "__consumer_offsets"), "neither messages inside messages nor topics"),
    (2, ("decode", "--as", "0.7/fetch", "--hex", "00"), "0.7/fetch is an API"),
    (2, ("show", "0.7/fetch", "--source", "decode"), "no code was written for Kafka 0.7"),
    (
        1,
        ("decode", "--dialect", "kafka-0.7", "--hex", FETCH_07[:-1].hex()),
        f"0.7 FETCH request at byte {len(FETCH_07) - 1}: the bytes end inside a field of 12 bytes$",
    ),
]


@each_row("code, arguments, line", REFUSED)
def test_what_is_wrong_is_said_in_one_line(code: int, arguments: tuple[object, ...], line: str) -> None:
    assert re.search(line, failed(code, *arguments))


@pytest.mark.real
def test_names_complete() -> None:
    program = "from proxy.cli import main; main(prog_name='kafka-wiretap')"
    asked = {"COMP_WORDS": "kafka-wiretap wire show meta", "COMP_CWORD": "3"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"_KAFKA_WIRETAP_COMPLETE": "bash_complete"} | asked,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["plain,Metadata"]


def test_examples_in_the_help_can_be_run_as_they_stand() -> None:
    examples = re.findall(r"kafka-wiretap wire (.*)", COMMANDS["wire"].help or "")
    assert len([ok(*one.split()) for one in examples if "--file" not in one]) >= 6


@pytest.mark.real
def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys; from proxy.cli import main; main(['wire', 'decode', '--help'], standalone_mode=False);"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not HEAVY & set(done.stderr.split())


def test_a_frame_is_not_read_from_a_standard_input_that_is_closed() -> None:
    command = [sys.executable, "-c", "from proxy.cli import main; main()", "wire", "decode"]
    shell = ["sh", "-c", 'exec "$@" <&-', "sh", *command]
    done = subprocess.run(shell, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (done.returncode, "there is no standard input; right would be --file FILE" in done.stderr) == (2, True)
