"""The command line: the outermost ring, the only place that knows both the proxy and the recorder.

The recorder is imported only when somebody asks to record or to look at a recording: a proxy that doesn't record
starts without pyarrow. Commands that are not the proxy are imported when called.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from proxy import config
from proxy.config import BadSetting, ProxySettings
from proxy.log import log_to_stderr

if TYPE_CHECKING:
    from proxy.net import Observer
    from proxy.rewrite.nodes import Address

# commands that are imported when called: where they stand, and the line that `--help` shows for each
LATER = {
    "analyze": ("recorder.commands", "Answer questions about a capture on Spark: latency and errors by API."),
    "compact": ("recorder.commands", "Turn what a proxy has logged into Parquet files."),
    "demo": ("recorder.commands", "Show it all: a small cluster, clients, the proxy, a capture, an analysis."),
    "inspect": ("recorder.commands", "List, filter and decode the frames of a capture, without Spark."),
    "wire": ("proxy.tools.commands", "Kafka's protocol: list its messages, show one, decode a frame."),
}


class WithLater(click.Group):
    """The group of all commands; those of LATER are imported when called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *LATER])

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in LATER:
            return super().get_command(ctx, name)
        commands: dict[str, click.Command] = import_module(LATER[name][0]).COMMANDS
        return commands[name]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own = {name: command.get_short_help_str(90) for name, command in self.commands.items()}
        later = {name: line for name, (_, line) in LATER.items()}
        with formatter.section("Commands"):
            formatter.write_dl(sorted((own | later).items()))


def _version() -> str:
    try:
        return version("kafka-wiretap")
    except PackageNotFoundError:
        return "not installed"


@click.group(cls=WithLater, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(_version(), prog_name="kafka-wiretap")
def main() -> None:
    """A transparent Kafka proxy that records every frame, and a toolbox that reads the recording.

    \b
    First steps:
      kafka-wiretap demo                              the whole of it, on this machine, in a minute
      kafka-wiretap proxy --upstream broker:9092 --listen 127.0.0.1:19092 --record capture
      kafka-wiretap inspect capture
      kafka-wiretap analyze capture
    \b
    Shell completion (bash; zsh and fish likewise):
      eval "$(_KAFKA_WIRETAP_COMPLETE=bash_source kafka-wiretap)"
    """


# what stands in a wrong flag's message as the right one
RIGHT = {
    "upstream": "broker-1:9092",
    "listen": "127.0.0.1:19092",
    "node_ports": "19100",
    "node_count": "1000",
    "state": "nodes.json",
    "record": "capture",
    "record_when_full": "drop",
    "drain": "10",
    "log_level": "info",
}


class NamedPath(click.Path):
    """A path that somebody named: an unset variable of a shell must not become the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("is empty", param, ctx)
        return super().convert(value, param, ctx)


class OneLine(click.ClickException):
    """What is wrong with the settings, in the one line that the user reads."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"kafka-wiretap: {self.message}", file=file, err=True)


class OneLineErrors(click.Command):
    """A command that says what is wrong with its arguments in one line, with a right example."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise OneLine(_one_line(error)) from error


def _one_line(error: click.UsageError) -> str:
    param = error.param if isinstance(error, click.BadParameter) else None
    if param is None or param.name not in RIGHT:
        return f"{error.format_message()} `kafka-wiretap proxy --help` lists all."
    flag = param.opts[0]
    what = "is missing" if isinstance(error, click.MissingParameter) else error.message.rstrip(".")
    return f"{flag} {what}; right would be {flag} {RIGHT[param.name]}"


@main.command(cls=OneLineErrors, short_help="Stand before a cluster: pass traffic on, measure it, record it.")
@click.option("--upstream", required=True, metavar="HOST:PORT[,...]", help="Bootstrap brokers, tried in order.")
@click.option("--listen", required=True, metavar="HOST:PORT", help="The bootstrap listener. Port 0: any free one.")
@click.option("--advertise", metavar="HOST", help="What clients are told to dial. Default: the host of --listen.")
@click.option("--node-ports", type=int, metavar="BASE", help="Node N listens on BASE + N. Default: listen port + 1.")
@click.option("--node-count", type=int, default=1000, show_default=True, help="Nodes below it have such a port.")
@click.option("--node", "named", multiple=True, metavar="N=HOST:PORT", help="The listener of one node. Repeatable.")
@click.option(
    "--state",
    type=NamedPath(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Keeps nodes and their ports over restarts. Default: beside the capture, or in your state folder.",
)
@click.option(
    "--record",
    type=NamedPath(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Record every frame into this folder.",
)
@click.option(
    "--record-queue",
    metavar="SIZE",
    default="64MiB",
    show_default=True,
    help="Bytes that may wait in memory to be written.",
)
@click.option(
    "--record-spool",
    metavar="SIZE",
    default="8GiB",
    show_default=True,
    help="Bytes on disk that may wait to be made into Parquet.",
)
@click.option(
    "--record-when-full",
    type=click.Choice(["drop", "wait"]),
    default="drop",
    show_default=True,
    help="Leave a gap, or slow the traffic down.",
)
@click.option("--metrics", metavar="HOST:PORT", help="Serve /metrics, /livez and /readyz here.")
@click.option(
    "--drain",
    type=float,
    default=10,
    show_default=True,
    metavar="SECONDS",
    help="How long exchanges in flight may take to finish after SIGTERM.",
)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
def proxy(log_level: str, record: Path | None, **flags: Any) -> None:
    """Stand before a cluster: clients connect here, and never learn a broker's own address.

    \b
    A broker on this machine, recorded:
      kafka-wiretap proxy --upstream localhost:9092 --listen 127.0.0.1:19092 --record capture --metrics 127.0.0.1:9464

    Each broker gets a listener of its own, so a client reaches the broker it means. SIGTERM lets exchanges in flight
    finish. Exit code 0; 1 when --drain was too short for them; 2 for a wrong setting.
    """
    log_to_stderr(log_level)
    try:
        sys.exit(_run_proxy(record, flags))
    except BadSetting as error:
        raise OneLine(str(error)) from error


def _run_proxy(record: Path | None, flags: dict[str, Any]) -> int:
    from proxy import net

    settings = _settings(record, flags)
    observer, child = _recorder(record, flags) if record is not None else (None, None)
    return net.run(settings, observer, child, _say_ready)


def _settings(record: Path | None, flags: dict[str, Any]) -> ProxySettings:
    from proxy.net.state import read_state

    listen = config.address("--listen", flags["listen"])
    state = flags["state"] or config.default_state_file(listen, record)
    try:
        remembered = {number: node.port for number, node in read_state(state).items() if node.port is not None}
    except ValueError as error:
        raise BadSetting(str(error)) from error
    ports = config.port_map(
        listen,
        flags["advertise"],
        config.named_nodes(flags["named"]),
        flags["node_ports"],
        flags["node_count"],
        remembered,
    )
    metrics = config.address("--metrics", flags["metrics"]) if flags["metrics"] else None
    upstream = config.addresses("--upstream", flags["upstream"])
    return ProxySettings(upstream, ports, state, metrics, flags["drain"])


def _recorder(folder: Path, flags: dict[str, Any]) -> tuple[Observer, Sequence[str]]:
    """The tap, and the command of its compactor."""
    from recorder.capture.session import RecordSettings, WhenFull
    from recorder.capture.tap import compactor_command, open_tap

    try:
        settings = RecordSettings(
            queue=config.size("--record-queue", flags["record_queue"]),
            spool=config.size("--record-spool", flags["record_spool"]),
            when_full=WhenFull(flags["record_when_full"]),
        )
        tap = open_tap(folder, settings)
    except BadSetting:
        raise
    except ValueError as error:
        raise BadSetting(str(error)) from error
    except OSError as error:
        raise BadSetting(f"--record: {error}; right would be a folder of yours, --record capture") from error
    return tap, compactor_command(folder, tap.session)


def _say_ready(listening: Address, metrics: Address | None) -> None:
    click.echo(f"listening on {listening}", err=True)
    if metrics is not None:
        click.echo(f"metrics on http://{metrics}/metrics", err=True)
