"""Tests of each option and argument of each command with arbitrary text: a sentence, never a stack trace."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from proxy import cli
from recorder.analysis.change.facts import CaptureFacts
from recorder.analysis.report import Report
from recorder.analysis.summary.sections.findings import Findings
from recorder.analysis.summary.whole import Summary
from recorder.encodings.study import study
from recorder.missing import Missing
from recorder.replay import outcome
from recorder.replay.results.report import as_json
from tests.recorder.pcap.dumps import pcap
from tests.recorder.small_capture import everything, write
from tests.sweeps import is_thorough

# Python's form of bytes that are not UTF-8, and of UTF-8 in an ASCII locale
GIVEN = [
    "\udcff",
    "ünï".encode().decode("ascii", "surrogateescape"),
    "",
    "9" * 400,
    "-1",
    "a\nb",
    "[",
    "%s/{}",
    "é" * 300,
]
# the arguments that each command needs besides the tested option
NEEDED: dict[str, list[str]] = {
    "analyze": ["CAPTURE"],
    "check": ["--upstream", "a:1"],
    "compact": ["CAPTURE"],
    "compare": ["CAPTURE", "CAPTURE"],
    "config check": ["FILE"],
    "config explain": ["drain"],
    "config reference": [],
    "config metrics": [],
    "config show": ["FILE"],
    "demo": [],
    "encodings": ["CAPTURE"],
    "export": ["CAPTURE", "--cloudevents", "findings", "--bootstrap", "127.0.0.1:1"],
    "facts": ["CAPTURE"],
    "import": ["DUMP", "imported"],
    "prune": ["CAPTURE", "--keep-age", "99d"],
    "inspect clients": ["CAPTURE"],
    "inspect metadata": ["CAPTURE"],
    "inspect transactions": ["CAPTURE"],
    "inspect groups": ["CAPTURE"],
    "inspect errors": ["CAPTURE"],
    "inspect exchanges": ["CAPTURE"],
    "inspect frames": ["CAPTURE"],
    "inspect latency": ["CAPTURE"],
    "inspect records": ["CAPTURE"],
    "inspect show": ["CAPTURE", "1/0"],
    "inspect summary": ["CAPTURE"],
    "inspect topics": ["CAPTURE"],
    "mcp": ["CAPTURE"],
    "proxy": ["--upstream", "a:1", "--listen", "127.0.0.1:0"],
    "redact": ["CAPTURE", "OUT", "--records", "drop"],
    "replay play": ["CAPTURE", "--to", "127.0.0.1:1"],
    "replay show": ["REPORT", "1"],
    "report": ["CAPTURE"],
    "ship": ["CAPTURE", "s3://bucket/folder"],
    "spark-package": ["PACKAGE"],
    "sql": ["CAPTURE", "select 1"],
    "stream": ["CAPTURE", "--output", "windows"],
    "top": ["127.0.0.1:1", "--token-file", "TOKEN"],
    "view": ["CAPTURE"],
    "wire decode": ["--hex", "0003000c0000000700026d650000010000"],
    "wire errors": ["6"],
    "wire list": [],
    "wire show": ["fetch"],
}


def commands(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


EVERY = dict(commands(cli.main))


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    write(folder, "frames", everything())
    return folder


@pytest.fixture
def needed(capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The files that commands name. Nothing is started, and nothing is written except below `tmp_path`."""
    shutil.copytree(capture, tmp_path / "capture")
    (tmp_path / "wiretap.toml").write_text('[clusters.east]\nupstream = "b1:9092"\nlisten = "127.0.0.1:0"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("proxy.net.run", lambda *_: 0)
    monkeypatch.setattr("proxy.net.workers.Parent", lambda *_: None)
    monkeypatch.setattr("proxy.net.doctor.examine", lambda *_, **__: None)
    monkeypatch.setattr("proxy.wiring.recorder", lambda *_: (None, None))
    monkeypatch.setattr("recorder.analysis.java.missing", lambda: None)
    monkeypatch.setattr("recorder.analysis.running.ask", lambda *_: None)
    monkeypatch.setattr("recorder.redacting._done", lambda *_: [])
    monkeypatch.setattr("recorder.analyze._analyzed", lambda *_: Report(Missing(), [], [], []))
    monkeypatch.setattr("recorder.reporting._summary", lambda *_: Summary())
    monkeypatch.setattr("recorder.comparing._sides", lambda *_: [CaptureFacts(), CaptureFacts()])
    monkeypatch.setattr("recorder.stream._run", lambda *_: None)
    monkeypatch.setattr("recorder.encodings.commands._study", lambda *_: study([], {}, ()))
    monkeypatch.setattr("recorder.export.commands._findings", lambda *_: Findings())
    monkeypatch.setattr("recorder.export.publisher.Publisher.check", lambda self: None)
    monkeypatch.setattr("recorder.export.publisher.Publisher.publish", lambda self, messages: {})
    monkeypatch.setattr("recorder.shipping.shipper.Shipper.ship_all", lambda *_: True)
    monkeypatch.setattr("recorder.page.view.View.run", lambda self: None)
    monkeypatch.setattr("recorder.top.screen.TopApp.run", lambda self: None)
    monkeypatch.setattr("recorder.demo.run.run", lambda *_, **__: 0)
    monkeypatch.setattr("recorder.replay.player.run.run", lambda job: 0)
    nothing = outcome.Result(outcome.Source("capture"), outcome.ReachedTarget("b1:9092"))
    (tmp_path / "report.json").write_text(as_json(nothing))
    (tmp_path / "dump.pcap").write_bytes(pcap([]))
    (tmp_path / "token").write_text("0123456789abcdef")
    return {
        "CAPTURE": "capture",
        "DUMP": "dump.pcap",
        "FILE": "wiretap.toml",
        "REPORT": "report.json",
        "TOKEN": "token",
    }


def tried(command: click.Command, needed: list[str]) -> Iterator[list[str]]:
    """Yields command lines, each with one option or argument that is one of `GIVEN`.

    Usually each option gets a quarter of them, and the next option another quarter.
    """
    arguments = [param for param in command.params if isinstance(param, click.Argument)]
    for turn, param in enumerate(command.params):
        for given in GIVEN if is_thorough() else GIVEN[turn % 4 :: 4]:
            if isinstance(param, click.Option) and not param.is_flag:
                yield [*needed, param.opts[-1], *[given] * param.nargs]
            elif isinstance(param, click.Argument) and arguments.index(param) < len(needed):
                at = arguments.index(param)
                yield [*needed[:at], given, *needed[at + 1 :]]


def test_no_command_was_forgotten() -> None:
    assert set(EVERY) == set(NEEDED)


@pytest.mark.real
@pytest.mark.parametrize("name", NEEDED)
def test_any_argument_gives_an_answer_or_an_error_line(name: str, needed: dict[str, str]) -> None:
    words = [needed.get(word, word) for word in NEEDED[name]]
    for line in tried(EVERY[name], words):
        assert_answered(CliRunner().invoke(cli.main, [*name.split(), *line]), line)


def assert_answered(result: Result, line: list[str]) -> None:
    exception: Any = result.exception
    assert exception is None or isinstance(exception, SystemExit), (line, repr(exception))
    assert result.exit_code in (0, 1, 2), line
    assert result.exit_code == 0 or result.stderr.strip(), line


LISTS = [
    "inspect summary",
    "inspect frames",
    "inspect exchanges",
    "wire list",
    "wire errors",
    "wire show",
    "config show",
]


@pytest.mark.parametrize("name", LISTS)
def test_no_list_is_wider_than_the_terminal_and_a_pipe_gets_all_of_it(
    name: str, needed: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*name.split(), *(needed.get(word, word) for word in NEEDED[name])]
    whole = CliRunner().invoke(cli.main, words)
    assert whole.exit_code == 0
    for columns in (40, 60, 100, 160):
        monkeypatch.setenv("COLUMNS", str(columns))
        fitted = CliRunner().invoke(cli.main, words)
        assert fitted.exit_code == 0
        assert max(map(len, fitted.stdout.splitlines())) <= columns
        if not name.startswith("inspect"):
            # at a width where nothing is left out
            assert "".join(fitted.stdout.split()) == "".join(whole.stdout.split())
