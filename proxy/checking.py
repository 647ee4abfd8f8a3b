"""The command `check`: a doctor for what stands between this machine and the brokers.

`kafka-wiretap config check` reads settings and dials nobody; this command does what a proxy would do with them.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import click

from proxy.config import ClusterSettings
from proxy.option_types import FILE
from proxy.schema.errors import BadSetting
from proxy.settings.load import LoadedSettings, load
from proxy.settings.options import Flag
from proxy.settings.sources import CONFIG_VARIABLE
from proxy.terminal import echo, harmless_json
from proxy.tls.contexts import credentials

# exit codes
WRONG, BAD_USAGE = 1, 2
# a listener's address, for settings that come without one: nobody listens there
NOWHERE = "127.0.0.1:0"


@click.command(
    params=[
        click.Option(
            ["--config"],
            type=FILE,
            envvar=CONFIG_VARIABLE,
            metavar="FILE",
            help="The proxy's own settings: every cluster in it is examined.",
        ),
        Flag("upstream"),
    ],
    short_help="Examine the brokers as a proxy would meet them: DNS, TCP, TLS, login, nodes.",
)
@click.option("--login", type=FILE, help='Log in as a client does: TOML with [login."*"], as for replay.')
@click.option("--topic", metavar="TOPIC", help="The topic of --produce and --consume.")
@click.option("--produce", "produces", is_flag=True, help="Write a record to TOPIC.")
@click.option("--consume", "consumes", is_flag=True, help="Read a record of TOPIC: the one written, or the oldest.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a step.")
def check(
    config: Path | None,
    upstream: str | None,
    login: Path | None,
    topic: str | None,
    produces: bool,
    consumes: bool,
    as_json: bool,
) -> None:
    """Examine the way to the brokers, a line a step: look-up, connection, TLS, versions, login, nodes.

    \b
    A cluster before a proxy stands there:
      kafka-wiretap check --upstream broker-1:9092,broker-2:9092
    What a proxy with these settings would meet:
      kafka-wiretap check --config wiretap.toml --login login.toml --topic orders --produce --consume

    A step is ok, wrong (with what would be right), or a note: nothing that keeps a proxy from working. No listener is
    opened, and no record touched unless asked for. `kafka-wiretap config check` says what is wrong with settings alone.

    Exit code 0: nothing is wrong; 1: something is; 2: a wrong option or setting.
    """
    if (produces or consumes) != (topic is not None):
        raise click.UsageError("right would be --topic TOPIC together with --produce, --consume or both")
    loaded = _loaded(config, upstream)
    start_login = None if login is None else _logins(login)
    outcomes: Counter[str] = Counter()
    for cluster in loaded.proxy.clusters:
        named = cluster.name if len(loaded.proxy.clusters) > 1 else ""
        tell = partial(_tell, named, outcomes, as_json=as_json)
        _examine(cluster, tell, start_login, topic, produces=produces, consumes=consumes)
    if not as_json:
        echo(_summary(outcomes))
    if outcomes["wrong"]:
        sys.exit(WRONG)


def _loaded(config: Path | None, upstream: str | None) -> LoadedSettings:
    """The settings that a proxy would have. Exits with BAD_USAGE and a line for each fault."""
    needs_listener = config is None and upstream is not None
    given = {"upstream": upstream, "listen": NOWHERE if needs_listener else None}
    try:
        loaded = load(config, given)
        for cluster in loaded.proxy.clusters:
            credentials(cluster)
    except BadSetting as error:
        _exit_with(*error.lines)
    return loaded


def _logins(file: Path) -> Any:
    """Begins a login as the file says. Exits with BAD_USAGE if the file can't be used."""
    from recorder.replay.login.logins import logins
    from recorder.replay.login.sasl import Login
    from recorder.replay.settings import BadReplaySettings, read_settings

    try:
        settings = read_settings(file)
        entry = logins({"login": settings.logins}, settings.folder).of(None)
    except BadReplaySettings as error:
        _exit_with(str(error))
    except BadSetting as error:
        _exit_with(*error.lines)
    if entry is None:
        _exit_with(f'{file} has no login for everybody; right would be [login."*"] with mechanism and username')
    return lambda offered: Login(entry.credentials(), offered)


def _examine(
    cluster: ClusterSettings,
    tell: Callable[[Any], None],
    start_login: Any,
    topic: str | None,
    *,
    produces: bool,
    consumes: bool,
) -> None:
    from proxy.net.doctor import Trial, examine

    trial = None if topic is None else Trial(topic, produces, consumes)
    examine(cluster, tell, start_login=start_login, trial=trial)


def _tell(cluster: str, outcomes: Counter[str], step: Any, *, as_json: bool) -> None:
    outcomes[step.outcome] += 1
    if as_json:
        named = {"cluster": cluster} if cluster else {}
        step_facts = {"step": step.name, "at": step.at, "outcome": step.outcome.value, "said": step.said}
        click.echo(harmless_json(json.dumps({**named, **step_facts, "right": step.right, "facts": dict(step.facts)})))
        return
    right = f"; right would be {step.right}" if step.right else ""
    of = f"{cluster}: " if cluster else ""
    # what a dial has to say begins with the address
    where = "" if step.said.startswith(f"{step.at} ") else f"{step.at}: "
    echo(f"{step.outcome.value:<6}{step.name:<9}{of}{where}{step.said}{right}")


def _summary(outcomes: Counter[str]) -> str:
    steps = sum(outcomes.values())
    wrong = f"{outcomes['wrong']} of {steps} steps wrong" if outcomes["wrong"] else f"nothing is wrong in {steps} steps"
    return f"{wrong}, {outcomes['note']} to note" if outcomes["note"] else wrong


def _exit_with(*lines: str) -> NoReturn:
    for line in lines:
        echo(line, err=True)
    sys.exit(BAD_USAGE)


COMMANDS: dict[str, click.Command] = {"check": check}
