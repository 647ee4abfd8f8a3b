"""The command `top`."""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import urlsplit

import click

from proxy.command_line import text
from proxy.ips import is_loopback
from proxy.limited_files import UnusableFile
from proxy.option_types import FILE, ReadBy
from proxy.schema.addresses import Address
from proxy.terminal import is_terminal, printable
from proxy.tokens import token_of
from recorder import extras
from recorder.inspect.options import complete_where
from recorder.query.language import FilterError, parse


def _address(written: str) -> Address:
    """The address in a URL, or a bare one. Raises ValueError."""
    parts = urlsplit(written) if "://" in written else None
    if parts is not None and parts.scheme != "http":
        raise ValueError("is no URL of a proxy's metrics, which speak no TLS")
    found = Address.parse(written if parts is None else parts.netloc)
    if not is_loopback(found.host):
        # the proxy would refuse a token that has passed in clear
        raise ValueError(
            "is not of this machine: a proxy's metrics speak no TLS, and the token would pass in clear: "
            "forward the port (ssh -L)"
        )
    return found


PROXY = ReadBy("ADDRESS", _address, "127.0.0.1:9464 or http://127.0.0.1:9464, the proxy's `metrics`")


@click.command(short_help="Watch a running proxy: APIs, topics, clients, groups with lag, nodes, errors.")
@click.argument("proxy", type=PROXY, metavar="ADDRESS")
@click.argument("filter_text", type=text, metavar="[FILTER]", required=False, shell_complete=complete_where)
@click.option(
    "--token-file",
    type=FILE,
    required=True,
    envvar="KAFKA_WIRETAP_LIVE__TOKEN_FILE",
    show_envvar=True,
    help="The file that the proxy's live.token_file names, or one with the same text.",
)
def top(proxy: Address, filter_text: str | None, token_file: Path) -> None:
    """Watch the traffic of a running proxy, as it passes. ADDRESS is that of its `metrics`, on its own machine.

    The proxy must have `live.token_file`. FILTER is what `inspect` takes; all views then show what passes it.
    Nothing can be changed from here. The key ? explains the others.

    \b
    kafka-wiretap top 127.0.0.1:9464 --token-file /etc/wiretap/token
    kafka-wiretap top 127.0.0.1:9464 'topic ~ "ord*" and error' --token-file /etc/wiretap/token
    """
    extras.check("top")
    from recorder.top.client import Client
    from recorder.top.screen import TopApp

    try:
        token = token_of(token_file)
        if filter_text:
            parse(filter_text)
    except UnusableFile as error:
        raise click.UsageError(f"{printable(token_file)} {error}") from error
    except FilterError as error:
        raise click.UsageError(str(error)) from error
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        raise click.UsageError(
            "top draws on a terminal, and there is none; right would be kafka-wiretap inspect exchanges FOLDER --follow"
        )
    TopApp(Client(proxy, token), filter_text or "").run()
