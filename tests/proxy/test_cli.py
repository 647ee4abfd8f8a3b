from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import click
import pytest
from click.testing import CliRunner, Result

from proxy import cli
from proxy.config import ClusterSettings, ProxySettings
from proxy.log import JsonFormatter
from proxy.net.brokers.nodes import bind
from proxy.net.state.claims import StateClaims
from proxy.schema.addresses import Address
from proxy.schema.errors import BadSetting
from proxy.wiring import WORKER_COMMAND
from recorder.capture.session import WhenFull

BASIC = ("--upstream", "b1:9092,b2:9093", "--listen", "127.0.0.1:0")


class Run:
    """In place of the proxy: notes its settings."""

    code = 0

    def __init__(self) -> None:
        self.settings: list[ProxySettings] = []
        self.observer: Any = None
        self.child: Sequence[str] | None = None
        self.reload: Any = None

    def __call__(
        self, settings: ProxySettings, observer: Any, child: Any, ready: Any, reload: Any, released: Any
    ) -> int:
        self.settings.append(settings)
        self.reload = reload
        self.observer, self.child = observer, child
        ready({"main": Address("127.0.0.1", 9092)}, Address("127.0.0.1", 9464))
        if observer is not None:
            observer.close()
        released()
        return self.code


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    run = Run()
    monkeypatch.setattr("proxy.net.run", run)
    return run


def proxy(*arguments: object) -> Result:
    return CliRunner().invoke(cli.main, ["proxy", *map(str, arguments)], catch_exceptions=False)


def told(run: Run, *arguments: object) -> ProxySettings:
    assert proxy(*BASIC, *arguments).exit_code == 0
    return run.settings[-1]


def cluster_told(run: Run, *arguments: object) -> ClusterSettings:
    (cluster,) = told(run, *arguments).clusters
    return cluster


def test_a_minimal_proxy_listens_on_and_advertises_the_same_host(run):
    settings = told(run)
    (cluster,) = settings.clusters
    assert cluster.name == "main"
    assert cluster.upstream == (Address("b1", 9092), Address("b2", 9093))
    assert cluster.listen == Address("127.0.0.1", 0)
    assert settings.metrics is None
    assert cluster.state is None
    assert settings.drain_seconds == 10
    assert run.observer is None
    assert run.child is None


def test_every_flag_reaches_the_settings(run, tmp_path):
    state = tmp_path / "nodes.json"
    settings = told(
        run, "--advertise", "proxy.example.org", "--node-ports", 19100, "--node-count", 50, "--state", state,
        "--node", "1=127.0.0.1:9094", "--node", "2=127.0.0.1:0", "--metrics", "127.0.0.1:9464", "--drain", 3.5,
    )  # fmt: skip
    (cluster,) = settings.clusters
    assert cluster.advertise == "proxy.example.org"
    assert cluster.node_map.usual_ports == range(19100, 19150)
    assert cluster.nodes == {1: Address("127.0.0.1", 9094), 2: Address("127.0.0.1", 0)}
    assert cluster.state == state
    assert settings.metrics == Address("127.0.0.1", 9464)
    assert settings.drain_seconds == 3.5


def test_sighup_forgets_neither_the_state_file_nor_its_ports(run, tmp_path):
    """Clients remember the port, so no other node may get it."""
    state = tmp_path / "nodes.json"
    state.write_text(json.dumps({"format": 1, "nodes": {"5000": {"upstream": "b1:9092", "port": 40123}}}))
    before = cluster_told(run, "--state", state)
    for _ in range(2):
        (after,) = run.reload().settings.clusters
        assert after == before
        assert after.node_map.wanted_listener(5000) == before.node_map.wanted_listener(5000)
        assert after.node_map.is_set_aside(40123, 7777)


def test_sighup_keeps_the_state_file_that_the_proxy_has_picked_itself(run, tmp_path):
    others = {"format": 2, "listener": "127.0.0.1:1", "upstream": ["b1:9092"], "nodes": {}}
    (tmp_path / "_nodes.json").write_text(json.dumps(others))
    assert cluster_told(run, "--record", tmp_path).state == tmp_path / "_nodes.2.json"
    (after,) = run.reload().settings.clusters
    assert after.state == tmp_path / "_nodes.2.json"


def test_ports_of_the_state_file_are_remembered(run, tmp_path):
    state = tmp_path / "nodes.json"
    nodes = {"1": {"upstream": "b1:9092", "port": 40123}, "2": {"upstream": "b2:9092"}}
    state.write_text(json.dumps({"format": 1, "nodes": nodes}))
    assert cluster_told(run, "--state", state).node_map.remembered == {1: 40123}


def test_the_proxy_prints_where_it_listens(run):
    result = proxy(*BASIC)
    assert result.stderr == "listening on 127.0.0.1:9092\nmetrics on http://127.0.0.1:9464/metrics\n"
    assert result.stdout == ""


def test_the_exit_code_is_the_runs(run):
    run.code = 1
    assert proxy(*BASIC).exit_code == 1


def test_recording_opens_a_tap_and_its_compactor(run, tmp_path):
    folder = tmp_path / "capture"
    cluster = cluster_told(run, "--record", folder, "--record-queue", "1MiB", "--record-when-full", "wait")
    assert cluster.state == folder / "_nodes.json"
    assert run.observer._settings.queue == 1024 * 1024
    assert run.observer._settings.when_full is WhenFull.WAIT
    assert run.child is not None
    assert run.child[:3] == [sys.executable, "-m", "recorder.capture.compactor"]
    assert run.observer.session in run.child


def test_several_workers_each_record_with_their_part(run, monkeypatch, tmp_path):
    heard: list[tuple[Any, ...]] = []
    monkeypatch.setattr("proxy.net.workers.run_workers", lambda *told: heard.append(told) or 0)
    folder = tmp_path / "capture"
    sizes = ("--record-queue", "3MiB", "--record-spool", "1GiB")
    assert proxy(*BASIC, "--workers", 3, "--record", folder, *sizes).exit_code == 0
    ((settings, command, recording, _, reload, released),) = heard
    assert run.settings == []
    assert settings.workers == 3
    assert command == WORKER_COMMAND
    assert (recording.folder, recording.queue, recording.spool) == (folder, 1 << 20, -(-(1 << 30) // 3))
    assert reload().settings.workers == 3
    assert (folder / "_nodes.json.lock").exists()
    released()
    assert not (folder / "_nodes.json.lock").exists()


def test_several_workers_need_a_capture_that_can_be_written(run, tmp_path):
    (tmp_path / "file").write_text("")
    result = proxy(*BASIC, "--workers", 2, "--record", tmp_path / "file" / "capture")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"kafka-wiretap: --record {tmp_path}")


def test_a_proxy_that_does_not_record_starts_without_the_recorder():
    script = (
        "import sys; from proxy import cli, net; net.run = lambda *a: 0\n"
        "try: cli.main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('recorder', 'pyarrow', 'pyspark', 'rich')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "proxy", *BASIC], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"


def bad(arguments: Sequence[object], flag: str) -> str:
    """Returns the error about these arguments: one line that begins with the flag; the exit code is 2."""
    result = proxy(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"kafka-wiretap: {flag}")
    return line


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


def test_a_second_proxy_that_records_in_a_folder_keeps_its_nodes_in_a_file_of_its_own(run, tmp_path):
    folder = tmp_path / "capture"
    first = StateClaims(told(run, "--record", folder))
    assert cluster_told(run, "--record", folder).state == folder / "_nodes.2.json"
    first.release()
    assert cluster_told(run, "--record", folder).state == folder / "_nodes.json"


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


def test_help_lists_all_commands_without_the_recorder():
    result = CliRunner().invoke(cli.main, ["--help"])
    assert result.exit_code == 0
    for name in ("proxy", *cli.LAZY_COMMANDS):
        assert f"  {name} " in result.output


def test_the_commands_that_are_imported_later_are_those_that_help_lists():
    from proxy.settings import commands as settings
    from proxy.tools import commands as tools
    from recorder import commands as recorder

    found = {**recorder.COMMANDS, **settings.COMMANDS, **tools.COMMANDS}
    assert set(found) == set(cli.LAZY_COMMANDS)
    context = cli.main.make_context("kafka-wiretap", ["--help"], resilient_parsing=True)
    for name in cli.LAZY_COMMANDS:
        assert cli.main.get_command(context, name) is found[name]
        assert name in cli.main.list_commands(context)


def test_an_unknown_command_is_not_found():
    result = CliRunner().invoke(cli.main, ["bogus"])
    assert result.exit_code == 2
    assert "No such command 'bogus'" in result.output


def test_a_misspelt_command_is_answered_with_the_one_that_is_meant():
    result = CliRunner().invoke(cli.main, ["analyse", "capture"])
    assert result.exit_code == 2
    assert result.output.endswith("Error: No such command 'analyse'. Did you mean 'analyze'?\n")


def test_help_of_the_proxy_names_every_flag():
    output = CliRunner().invoke(cli.main, ["proxy", "--help"]).output
    for param in cli.proxy.params:
        assert param.opts[0] in output


def test_the_version_is_the_distributions():
    result = CliRunner().invoke(cli.main, ["--version"])
    assert result.output.startswith("kafka-wiretap, version ")


def test_a_checkout_that_is_not_installed_has_no_version(monkeypatch):
    def missing(name: str) -> str:
        raise cli.PackageNotFoundError

    monkeypatch.setattr(cli, "version", missing)
    assert cli._version() == "not installed"


def test_paths_reach_the_settings_as_paths(run, tmp_path):
    assert isinstance(cluster_told(run, "--state", tmp_path / "n.json").state, Path)


# a file of settings


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "wiretap.toml"
    path.write_text('drain = "3s"\n[clusters.east]\nupstream = "b1:9092"\nlisten = "127.0.0.1:0"\n')
    return path


def test_a_file_says_what_flags_say_and_flags_win(run, file):
    assert proxy("--config", file, "--upstream", "b2:9092", "--metrics", "127.0.0.1:0").exit_code == 0
    (settings,) = run.settings
    (cluster,) = settings.clusters
    assert (cluster.name, cluster.upstream) == ("east", (Address("b2", 9092),))
    assert (settings.drain_seconds, settings.metrics) == (3, Address("127.0.0.1", 0))


def test_the_environment_names_the_file_and_wins_over_it(run, file, monkeypatch):
    monkeypatch.setenv("KAFKA_WIRETAP_CONFIG", str(file))
    monkeypatch.setenv("KAFKA_WIRETAP_DRAIN", "4")
    assert proxy().exit_code == 0
    assert run.settings[-1].drain_seconds == 4


def test_the_proxy_prints_a_line_for_each_error(run, file):
    file.write_text('drian = 3\n[clusters.east]\nupstream = "b1"\n')
    result = proxy("--config", file)
    assert result.exit_code == 2
    lines = result.stderr.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("kafka-wiretap: ") and "right would be" in line for line in lines)
    assert run.settings == []


def test_a_failed_start_is_worded_as_the_files_keys(file):
    with bind(Address("127.0.0.1", 0)) as sock:
        busy = f"127.0.0.1:{sock.getsockname()[1]}"
        file.write_text(f'[clusters.east]\nupstream = "b1:9092"\nlisten = "{busy}"\nnode_count = 0\n')
        line = bad(["--config", file], f'clusters.east.listen = "{busy}" can\'t be had (Address already in use)')
    assert line.endswith('for example listen = "127.0.0.1:19092"')


def test_an_unreadable_state_file_is_reported_before_a_capture_begins(file, tmp_path):
    (tmp_path / "nodes.json").write_text("not json")
    with file.open("a") as settings:
        settings.write(f'state = "{tmp_path}/nodes.json"\n[capture]\nfolder = "{tmp_path}/capture"\n')
    bad(["--config", file], f'clusters.east.state = "{tmp_path}/nodes.json" can\'t be read')
    assert not (tmp_path / "capture").exists()


def test_each_cluster_says_where_it_listens(monkeypatch, file):
    def run(settings: ProxySettings, observer: Any, child: Any, ready: Any, *others: Any) -> int:
        ready({cluster.name: cluster.listen for cluster in settings.clusters}, None)
        return 0

    monkeypatch.setattr("proxy.net.run", run)
    with file.open("a") as settings:
        settings.write('[clusters.west]\nupstream = "b1:9092"\nlisten = "127.0.0.2:0"\n')
    assert proxy("--config", file).stderr == "listening on 127.0.0.1:0 for east\nlistening on 127.0.0.2:0 for west\n"


def test_a_capture_is_of_one_cluster_or_its_connections_say_of_which(run, file, tmp_path):
    with file.open("a") as settings:
        settings.write(f'[capture]\nfolder = "{tmp_path}/capture"\ncompactor = false\n')
    assert proxy("--config", file).exit_code == 0
    assert run.observer._settings.cluster == "east"
    assert run.child is None
    with file.open("a") as settings:
        settings.write('[clusters.west]\nupstream = "b1:9092"\nlisten = "127.0.0.2:0"\n')
    assert proxy("--config", file).exit_code == 0
    assert run.observer._settings.cluster is None


def test_the_log_is_written_as_the_settings_say(run, file):
    with file.open("a") as settings:
        settings.write('[log]\nlevel = "warning"\nformat = "json"\n')
    assert proxy("--config", file).exit_code == 0
    (handler,) = logging.getLogger().handlers
    assert isinstance(handler.formatter, JsonFormatter)
    assert logging.getLogger("kafka-wiretap").level == logging.WARNING


def test_a_hangup_has_the_same_file_read_again(run, file, capsys):
    assert proxy("--config", file, "--upstream", "b2:9092").exit_code == 0
    file.write_text(file.read_text().replace('"3s"', '"4s"').replace(":0", ":1") + '[log]\nlevel = "debug"\n')
    read = run.reload()
    again = read.settings
    # a cluster may still refuse it
    assert logging.getLogger("kafka-wiretap").level == logging.INFO
    assert capsys.readouterr().err == ""
    assert run.reload() == read._replace(change=mock.ANY)
    read.change.apply()
    assert again.drain_seconds == 4
    assert again.clusters[0].upstream == (Address("b2", 9092),)
    assert again.clusters[0].listen == Address("127.0.0.1", 0)
    assert logging.getLogger("kafka-wiretap").level == logging.DEBUG
    *at_once, line = capsys.readouterr().err.splitlines()
    assert [one.partition(" info ")[2] for one in at_once] == [
        "a setting changes at once  key=drain",
        "a setting changes at once  key=log.level",
    ]
    assert "a setting changes with the next start only  key=clusters.east.listen " in line
    assert line.endswith('reason="a listener and its connections go on as they began"')


def test_an_undone_reload_is_found_as_a_change_again(run, file, capsys):
    assert proxy("--config", file, "--upstream", "b2:9092").exit_code == 0
    file.write_text(file.read_text() + '[log]\nlevel = "debug"\n')
    read = run.reload()
    read.change.apply()
    read.change.undo()
    assert logging.getLogger("kafka-wiretap").level == logging.INFO
    capsys.readouterr()
    run.reload().change.apply()
    assert "a setting changes at once  key=log.level" in capsys.readouterr().err


def test_a_pipe_is_not_read_again(run, file, tmp_path):
    """A shell passes a pipe (`<(...)`), whose writer has ended."""
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=[file.read_text()])
    writer.start()
    assert proxy("--config", tmp_path / "pipe").exit_code == 0
    writer.join()
    with pytest.raises(BadSetting, match=r"--config .*pipe is no regular file, so it can be read at the start only"):
        run.reload()


def test_a_settings_file_that_became_wrong_is_reported_at_the_reload(run, file):
    assert proxy("--config", file).exit_code == 0
    file.write_text("drian = 3\n" + file.read_text())
    with pytest.raises(BadSetting, match="drian is no setting"):
        run.reload()


def every_command(command: click.Command, names: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yields the words of each command, groups included."""
    yield names
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from every_command(below, (*names, name))


def test_help_has_nothing_but_lines_of_text() -> None:
    for names in every_command(cli.main):
        done = CliRunner().invoke(cli.main, [*names, "--help"])
        assert (done.exit_code, [one for one in done.output if not one.isprintable() and one != "\n"]) == (0, []), names


@pytest.mark.parametrize("names", [(), ("config",), ("wire",)], ids=["main", "config", "wire"])
def test_a_group_without_a_command_shows_its_help(names: tuple[str, ...]) -> None:
    done = CliRunner().invoke(cli.main, names)
    assert done.exit_code == 2
    assert done.output.splitlines() == CliRunner().invoke(cli.main, [*names, "--help"]).output.splitlines()
