"""The commands of `kafka-wiretap config` (check, show, explain, reference, metrics): none runs a proxy or dials."""

from __future__ import annotations

from pathlib import Path

import click

from proxy.command_line import folded, text, width
from proxy.schema.errors import BadSetting
from proxy.settings.load import load, read
from proxy.settings.sources import CONFIG_VARIABLE
from proxy.terminal import echo, printable

EXIT_WRONG = 2
FILE = click.argument("file", required=False, type=click.Path(path_type=Path), envvar=CONFIG_VARIABLE)


@click.group(short_help="Check, show and explain settings, without running a proxy.")
def config() -> None:
    """Check settings in a file and the environment, show which are in effect, and explain them.

    docs/settings.md lists all of them. `kafka-wiretap check` examines the brokers that they name.
    """


@config.command(short_help="Say everything that is wrong with a file of settings.")
@FILE
def check(file: Path | None) -> None:
    """Print a line for everything that is wrong with FILE and the environment, then warnings and notes.

    Exit code 0: a proxy would start with these settings, if ports and brokers let it; 2: it wouldn't.
    """
    from proxy.settings.risks import notes, risks
    from proxy.tls.contexts import wrong_files

    try:
        result = read(file)
    except BadSetting as error:
        raise _failed(file, *error.lines) from error
    wrong = [*result.error_lines, *(line for tls in result.cluster_tls for line in wrong_files(*tls))]
    loaded = result.loaded
    if wrong or loaded is None:
        raise _failed(file, *wrong)
    for risk in risks(loaded):
        echo(f"warning: {risk}")
    for note in notes(loaded):
        echo(f"note: {note}")
    clusters = ", ".join(cluster.name for cluster in loaded.proxy.clusters)
    echo(f"{printable(file or 'the environment')} is right: {clusters}")


@config.command(short_help="Print what is in effect, and where each value comes from.")
@FILE
@click.option("--toml", is_flag=True, help="Print them as a settings file.")
def show(file: Path | None, toml: bool) -> None:
    """Print every setting in effect with FILE and the environment, and its source. Secrets are left out."""
    from proxy.settings.show import as_file, listing

    try:
        effective = load(file).effective
    except BadSetting as error:
        raise _failed(file, *error.lines) from error
    wide = None if toml else width()
    for line in as_file(effective) if toml else listing(effective):
        for part in folded(line, wide):
            echo(part)


@config.command(
    short_help="Explain a setting: what it does, its values, default, flag and variable.",
    # a flag is a key here
    context_settings={"ignore_unknown_options": True},
)
@click.argument("key", type=text)
def explain(key: str) -> None:
    """Explain KEY: a setting (timeouts.idle), with or without its section, a flag, or an environment variable."""
    from proxy.settings.explain import UnknownKey, explain

    try:
        lines = explain(key)
    except UnknownKey as error:
        echo(str(error), err=True)
        raise click.exceptions.Exit(EXIT_WRONG) from error
    for line in lines:
        for part in folded(line, width()):
            echo(part)


@config.command(short_help="Print the page that explains every setting.")
def reference() -> None:
    """Print docs/settings.md."""
    from proxy.settings.reference import reference

    click.echo(reference(), nl=False)


@config.command(short_help="Print the page that explains every metric.")
def metrics() -> None:
    """Print docs/metrics.md."""
    from proxy.metrics.reference import reference

    click.echo(reference(), nl=False)


def _failed(file: Path | None, *lines: str) -> click.exceptions.Exit:
    """Prints the lines to standard error. Returns the exit, for the caller to raise."""
    if file is None:
        command = f"kafka-wiretap config {click.get_current_context().info_name}"
        echo(f"only the environment was read; for a file: {command} wiretap.toml", err=True)
    for line in lines:
        echo(line, err=True)
    return click.exceptions.Exit(EXIT_WRONG)


COMMANDS: dict[str, click.Command] = {"config": config}
