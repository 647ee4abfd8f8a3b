"""Tests of wrong settings: one line each, before anything has begun."""

from __future__ import annotations

import pytest

from proxy.net.brokers.node_ports import bind
from proxy.net.state.claims import StateClaims
from proxy.schema.addresses import Address
from tests.proxy.cli_runs import BASIC, bad, told


@pytest.mark.parametrize(
    ("arguments", "flag"),
    [
        (["--upstream", "a:1"], "--listen is missing"),
        (["--upstream", "a", "--listen", "127.0.0.1:0"], "--upstream 'a'"),
        (["--upstream", ",", "--listen", "127.0.0.1:0"], "--upstream ',' names no broker"),
        (["--upstream", "a:1", "--listen", "127.0.0.1:x"], "--listen '127.0.0.1:x'"),
        (["--upstream", "a:1", "--listen", "a:1"], "--upstream a:1 is the proxy's own listener"),
        (["--upstream", "a:1", "--listen", "0.0.0.0:9092"], "--listen 0.0.0.0:9092"),
        ([*BASIC, "--advertise", "a:1"], "--advertise a:1"),
        ([*BASIC, "--node-ports", "many"], "--node-ports 'many'"),
        ([*BASIC, "--node-ports", 65_000], "--node-ports 65000"),
        ([*BASIC, "--node-count", "many"], "--node-count 'many'"),
        ([*BASIC, "--node", "a:1"], "--node a:1"),
        ([*BASIC, "--node", "1=0.0.0.0:1"], "--node 1=0.0.0.0:1"),
        ([*BASIC, "--state", "."], "--state "),
        ([*BASIC, "--metrics", "9464"], "--metrics '9464'"),
        ([*BASIC, "--drain", "-1"], "--drain '-1'"),
        ([*BASIC, "--drain", "soon"], "--drain 'soon'"),
        ([*BASIC, "--log-level", "loud"], "--log-level 'loud'"),
        ([*BASIC, "--record", __file__], "--record "),
        ([*BASIC, "--record", __file__ + "/capture"], "--record "),
        ([*BASIC, "--record-when-full", "stop"], "--record-when-full 'stop'"),
    ],
)
def test_a_bad_setting_is_one_line_with_its_name_and_a_right_example(arguments, flag, run):
    line = bad(arguments, flag)
    assert "right would be" in line
    assert run.settings == []


@pytest.mark.parametrize(("flag", "example"), [("--record", "capture"), ("--state", "nodes.json")])
def test_an_empty_path_is_no_path(flag: str, example: str) -> None:
    """A shell passes an empty text for a variable that is not set."""
    line = bad([*BASIC, flag, ""], f"{flag} '' is empty")
    assert f"right would be {flag} {example}" in line


@pytest.mark.parametrize("flag", ["--record-queue", "--record-spool"])
@pytest.mark.parametrize("size", ["64MB", "much", "-1"])
def test_a_bad_size_is_refused_before_a_capture_begins(flag, size, run, tmp_path):
    bad([*BASIC, "--record", tmp_path / "capture", flag, size], flag)
    assert not (tmp_path / "capture").exists()


@pytest.mark.parametrize("flag", ["--record-queue", "--record-spool"])
def test_a_size_of_nothing_is_reported_with_an_example(flag, run, tmp_path):
    assert "right would be" in bad([*BASIC, "--record", tmp_path / "capture", flag, "0"], f"{flag} '0' lets nothing")


def test_an_unknown_option_is_one_line(run):
    assert "kafka-wiretap proxy --help" in bad([*BASIC, "--bogus"], "No such option")


def test_an_unreadable_state_file_is_a_bad_setting(run, tmp_path):
    state = tmp_path / "nodes.json"
    state.write_text("not json")
    assert "right would be" in bad([*BASIC, "--state", state], f"--state {state} can't be read")


def test_a_state_file_that_another_proxy_has_is_a_bad_setting(run, tmp_path):
    state = tmp_path / "nodes.json"
    first = StateClaims(told(run, "--state", state))
    line = bad([*BASIC, "--state", state, "--record", tmp_path / "capture"], f"--state {state} is another proxy's")
    assert line.endswith(f"right would be a file of its own, --state {tmp_path}/nodes-2.json")
    assert not (tmp_path / "capture").exists()
    first.release()


def test_a_failed_start_releases_the_state_file(tmp_path):
    state = tmp_path / "nodes.json"
    with bind(Address("127.0.0.1", 0)) as sock:
        busy = f"127.0.0.1:{sock.getsockname()[1]}"
        bad(["--upstream", "a:1", "--listen", busy, "--state", state], f"--listen {busy} can't be had")
    assert list(tmp_path.iterdir()) == []


def test_a_busy_port_is_a_bad_setting():
    with bind(Address("127.0.0.1", 0)) as sock:
        busy = f"127.0.0.1:{sock.getsockname()[1]}"
        line = bad(["--upstream", "a:1", "--listen", busy], f"--listen {busy} can't be had (Address already in use)")
    assert "right would be a free port" in line


def test_a_capture_that_can_not_be_written_is_reported_at_the_start(run, tmp_path):
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "capture"
    line = bad([*BASIC, "--record", folder], f"--record {folder}: the capture folder")
    assert "can't be written" in line
