"""The command line: `kafka-wiretap` and its command `proxy`. `main` is the program's entry point.

All other commands are imported when they are called (LAZY_COMMANDS), and the recorder only if traffic is recorded
(`proxy.wiring`): a proxy that doesn't record starts without pyarrow.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from logging import INFO, WARNING
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from proxy import wiring
from proxy.command_line import end_as_other_tools, write_any_text
from proxy.log import log, log_to_stderr
from proxy.option_types import FILE
from proxy.schema.errors import BadSetting
from proxy.schema.toml import dotted
from proxy.settings.load import LoadedSettings, load
from proxy.settings.options import Flag, flags
from proxy.settings.reload import ReloadOutcome, reloaded, why_it_waits
from proxy.settings.sources import CONFIG_VARIABLE
from proxy.similar import LIKELY, nearest
from proxy.standard_error import queue_standard_error
from proxy.terminal import echo, harmless
from proxy.version import program_version

if TYPE_CHECKING:
    from proxy.net import ReloadedSettings, StateClaims
    from proxy.schema.addresses import Address
    from recorder.capture.session import CaptureSettings

# command -> the module that has it in its COMMANDS, and its line in `--help`
LAZY_COMMANDS = {
    "analyze": ("recorder.commands", "Answer questions about a capture: latency and errors by API."),
    "check": ("proxy.checking", "Examine the brokers as a proxy would meet them: DNS, TCP, TLS, login, nodes."),
    "compact": ("recorder.commands", "Turn what a proxy has logged into Parquet files."),
    "config": ("proxy.settings.commands", "Check, show and explain settings, without running a proxy."),
    "demo": (
        "recorder.commands",
        "Show it all: a small cluster, clients, the proxy, a capture, an analysis, a replay.",
    ),
    "facts": ("recorder.commands", "Make the facts of a capture: what its frames say, as small tables."),
    "encodings": ("recorder.commands", "Tell what a capture's integers would take in other encodings."),
    "export": ("recorder.commands", "Publish a capture's findings as CloudEvents, or its frames as a packet dump."),
    "import": ("recorder.commands", "Make a capture of a packet dump (pcap, pcapng), without a proxy."),
    "inspect": ("recorder.commands", "List, filter and decode the frames of a capture, without Spark."),
    "mcp": ("recorder.commands", "Let an agent ask about captures, by the Model Context Protocol."),
    "compare": ("recorder.commands", "Two captures side by side: did the change help?"),
    "ship": ("recorder.commands", "Copy a capture into an S3 bucket."),
    "spark-package": ("recorder.commands", "Write what spark-submit takes to run the analysis on a cluster."),
    "sql": ("recorder.commands", "Ask a capture in SQL: its tables are views."),
    "stream": ("recorder.commands", "Write a capture's latency and errors by window, while it is recorded."),
    "prune": ("recorder.commands", "Remove the oldest hours of a capture."),
    "redact": ("recorder.commands", "Copy a capture without its records, or with hashes in their place."),
    "replay": ("recorder.commands", "Play a capture against another cluster, and compare the answers."),
    "report": ("recorder.commands", "Write a capture's report: what is wrong, and how it went, as one page."),
    "top": ("recorder.commands", "Watch a running proxy: APIs, topics, clients, groups with lag, nodes, errors."),
    "view": ("recorder.commands", "Show a capture in a browser, finished or while it grows."),
    "wire": ("proxy.tools.commands", "Kafka's protocol: list its messages, show one, decode a frame, name an error."),
}


# a key in a context's `meta`: a proxy runs, so its errors are not handled as those of other commands
PROXY_RUNS = "kafka-wiretap.runs"


class LazyGroup(click.Group):
    """The group of all commands, LAZY_COMMANDS included. Makes errors printable: they may quote foreign text."""

    def main(self, *arguments: Any, **extra: Any) -> Any:
        write_any_text()
        return super().main(*arguments, **extra)

    def make_context(self, *arguments: Any, **extra: Any) -> click.Context:
        with _harmless_errors():
            try:
                return super().make_context(*arguments, **extra)
            except (OSError, KeyboardInterrupt) as error:
                end_as_other_tools(error)

    def invoke(self, ctx: click.Context) -> Any:
        with _harmless_errors():
            try:
                return super().invoke(ctx)
            except (OSError, KeyboardInterrupt) as error:
                if PROXY_RUNS in ctx.meta:
                    raise
                end_as_other_tools(error)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *LAZY_COMMANDS])

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in LAZY_COMMANDS:
            return super().get_command(ctx, name)
        commands: dict[str, click.Command] = import_module(LAZY_COMMANDS[name][0]).COMMANDS
        return commands[name]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args[0] not in known and not ctx.resilient_parsing and (near := nearest(args[0], known, likeness=LIKELY)):
            ctx.fail(f"No such command {args[0]!r}. Did you mean {near!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own = {name: command.get_short_help_str(90) for name, command in self.commands.items()}
        later = {name: line for name, (_, line) in LAZY_COMMANDS.items()}
        with formatter.section("Commands"):
            formatter.write_dl(sorted((own | later).items()))


@contextmanager
def _harmless_errors() -> Iterator[None]:
    """Makes the messages of click's errors printable."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        # this error's message is our own help text
        raise
    except click.ClickException as error:
        # click declares `message` final, but reads it only when it shows the error
        object.__setattr__(error, "message", harmless(error.message))
        if isinstance(error, click.NoSuchOption) and error.possibilities:
            error.possibilities[:] = _alike(error.option_name, error.possibilities)
        if isinstance(error, click.MissingParameter) and isinstance(error.param, click.Option) and error.ctx:
            _add_right_option(error, error.param, error.ctx)
        raise


def _add_right_option(error: click.MissingParameter, option: click.Option, ctx: click.Context) -> None:
    if described := option.get_help_record(ctx):
        object.__setattr__(error, "message", f"Right would be {described[0]}")


def _alike(option: str, possibilities: Iterable[str]) -> list[str]:
    """The options that are like this one without their dashes too, which make any short names alike."""
    bare = option.lstrip("-")
    return [one for one in possibilities if nearest(bare, [one.lstrip("-")], likeness=LIKELY)]


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(program_version(), prog_name="kafka-wiretap")
def main() -> None:
    """A transparent Kafka proxy that records every frame, and a toolbox that reads the recording.

    \b
    First steps:
      kafka-wiretap demo                              all of it, on this machine, in two minutes
      kafka-wiretap proxy --upstream broker:9092 --listen 127.0.0.1:19092 --record capture
      kafka-wiretap inspect capture
      kafka-wiretap analyze capture

    \b
    Shell completion (bash; zsh and fish likewise):
      eval "$(_KAFKA_WIRETAP_COMPLETE=bash_source kafka-wiretap)"
    """


class SettingsError(click.ClickException):
    """Wrong settings. `lines`: the lines that the user reads."""

    exit_code = 2

    def __init__(self, *lines: str) -> None:
        super().__init__("; ".join(lines))
        self.lines = lines

    def show(self, file: IO[Any] | None = None) -> None:
        for line in self.lines:
            click.echo(f"kafka-wiretap: {harmless(line)}", file=file, err=True)


class OneLineErrors(click.Command):
    """A command that reports a wrong argument in one line, with a right example."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise SettingsError(_one_line(error)) from error


def _one_line(error: click.UsageError) -> str:
    param = error.param if isinstance(error, click.BadParameter) else None
    if param is None:
        return f"{error.format_message()} `kafka-wiretap proxy --help` lists all."
    right = param.example if isinstance(param, Flag) else f"{param.opts[0]} wiretap.toml"
    return f"{param.opts[0]} {error.message.rstrip('.')}; right would be {right}"


# names the settings file; it is no setting itself
CONFIG_FLAG = click.Option(
    ["--config"],
    type=FILE,
    envvar=CONFIG_VARIABLE,
    metavar="FILE",
    help="Settings in TOML: all of these, and more. What is said here wins.",
)


@main.command(
    cls=OneLineErrors,
    params=[CONFIG_FLAG, *flags()],
    short_help="Stand before a cluster: pass traffic on, measure it, record it.",
)
def proxy(config: Path | None, **given: Any) -> None:
    """Stand before a cluster: clients connect here, and never learn a broker's own address.

    \b
    A broker on this machine, recorded:
      kafka-wiretap proxy --upstream localhost:9092 --listen 127.0.0.1:19092 --record capture --metrics 127.0.0.1:9464

    \b
    All of it, and more, from a file:
      kafka-wiretap proxy --config wiretap.toml

    Each broker gets a listener of its own, so a client reaches the broker that it means. SIGTERM lets exchanges in
    flight finish. SIGHUP makes the proxy read the settings again. Every setting is also an environment variable, for
    example KAFKA_WIRETAP_CLUSTERS__MAIN__UPSTREAM (docs/settings.md).

    Exit code 0: done; 1: --drain was too short, or the disk too slow for the end of the recording; 2: a wrong setting.
    """
    try:
        loaded = load(config, given)
    except BadSetting as error:
        raise SettingsError(*error.lines) from error
    queue_standard_error()
    log_to_stderr(loaded.proxy.log.level, loaded.proxy.log.format)
    click.get_current_context().meta[PROXY_RUNS] = True
    try:
        sys.exit(_run_proxy(loaded, config, given))
    except BadSetting as error:
        raise SettingsError(*loaded.lines_of(error)) from error


def _run_proxy(loaded: LoadedSettings, config: Path | None, given: dict[str, Any]) -> int:
    from proxy import net

    # first, so that faults of a state file are reported before a capture begins
    claims = net.StateClaims(loaded.proxy)
    # settings that SIGHUP reads again lack the claimed state files and the ports in them; `loaded` keeps these
    loaded = replace(loaded, proxy=claims.settings)
    live = None
    try:
        live = wiring.live(claims.settings, loaded.capture)
        return _run_claimed(claims, loaded.capture, live, _reloading(loaded, live, config, given))
    except BadSetting:
        claims.release()
        if live is not None:
            live.discard()
        raise


def _run_claimed(
    claims: StateClaims,
    capture: CaptureSettings | None,
    live: wiring.Live | None,
    reload: Callable[[], ReloadedSettings],
) -> int:
    from proxy import net

    settings, shipping = claims.settings, wiring.shipping(capture)
    companions = [one for one in (shipping, live.companion if live else None) if one is not None]
    recorded = live.recording if live else capture
    if settings.workers == 1:
        observer, child = wiring.recorder(recorded, settings)
        proxy = net.Proxy(settings, observer, child, _show_listeners, reload, claims.release, companions)
        return net.run(proxy)
    from proxy.net.workers import Parent

    if capture is not None:
        wiring.check_folder(capture.folder)
    # each worker records on its own, with its part of the limits
    recording = wiring.share(recorded, settings.workers)
    parent = Parent(settings, wiring.WORKER_COMMAND, recording, _show_listeners, reload, claims.release, companions)
    return net.run(parent)


def _reloading(
    loaded: LoadedSettings, live: wiring.Live | None, config: Path | None, given: dict[str, Any]
) -> Callable[[], ReloadedSettings]:
    """Returns the function that reads all settings again after a SIGHUP. Blocks. Changes that need a restart wait."""
    from proxy.net import Change, ReloadedSettings

    def reload() -> ReloadedSettings:
        before, again = loaded, reloaded(loaded, load(config, given, again=True))
        new = again.loaded

        def apply() -> None:
            put_into_effect(new)
            _log_changes(before, again)

        recorded = new.capture or (live.recording if live else None)
        recording = wiring.share(recorded, new.proxy.workers)
        return ReloadedSettings(new.proxy, recording, Change(apply, partial(put_into_effect, before)))

    def put_into_effect(settings: LoadedSettings) -> None:
        nonlocal loaded
        loaded = settings
        log_to_stderr(loaded.proxy.log.level, loaded.proxy.log.format)

    return reload


def _log_changes(before: LoadedSettings, again: ReloadOutcome) -> None:
    values = {setting.place: setting.value for setting in before.effective}
    for setting in again.loaded.effective:
        if setting.place not in values or values[setting.place] != setting.value:
            log(INFO, "a setting changes at once", key=dotted(setting.place))
    for place in again.waiting:
        log(WARNING, "a setting changes with the next start only", key=dotted(place), reason=why_it_waits(place))


def _show_listeners(listening: Mapping[str, Address], metrics: Address | None) -> None:
    """Writes the listeners' addresses to standard error, whose reader may be gone."""
    with suppress(OSError):
        for name, address in listening.items():
            echo(f"listening on {address}" + (f" for {name}" if len(listening) > 1 else ""), err=True)
        if metrics is not None:
            echo(f"metrics on http://{metrics}/metrics", err=True)
