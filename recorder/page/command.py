"""The command `view`: the page over a capture, finished or growing."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from proxy.command_line import text
from proxy.option_types import FILE, SIZE, of_kind
from proxy.schema.addresses import ADDRESS, Address
from proxy.terminal import echo
from proxy.wire.errors import OverBudget
from recorder import extras
from recorder.capture.frames import DamagedFileError, UnknownFormatError
from recorder.capture.remote import Place
from recorder.capture.session import is_live, sessions
from recorder.filters import SINCE, UNTIL
from recorder.inspect.commands import filter_of_options
from recorder.inspect.options import complete_where
from recorder.reading.capture import Capture, GrowingCapture
from recorder.ready import CaptureType, check_encodes, check_is_capture, ready_at
from recorder.terminal import say


@click.command(short_help="Show a capture in a browser: exchanges, charts, topics, groups; while it grows, too.")
@click.argument("folder", type=CaptureType(), metavar="FOLDER")
@click.argument("filter_text", type=text, metavar="[FILTER]", required=False, shell_complete=complete_where)
@SINCE
@UNTIL
@click.option(
    "--listen",
    type=of_kind(ADDRESS, "127.0.0.1:8080"),
    default="127.0.0.1:0",
    show_default=True,
    help="Where the page is served; port 0: any free one. Beyond loopback only with TLS.",
)
@click.option("--token-file", type=FILE, help="Who shows the text in this file may look. Default: a new token.")
@click.option("--certificate", type=FILE, help="Serve TLS with the certificates in this file, the server's first.")
@click.option("--key", type=FILE, help="The certificate's key.")
@click.option("--name", "names", type=text, multiple=True, help="A host name by which browsers ask, besides localhost.")
@click.option("--memory", type=SIZE, default="256MiB", show_default=True, help="The most for exchanges; the oldest go.")
def view(
    folder: Place,
    filter_text: str | None,
    listen: Address,
    token_file: Path | None,
    certificate: Path | None,
    key: Path | None,
    names: tuple[str, ...],
    memory: int,
    since: Any,
    until: Any,
) -> None:
    """Read the capture in FOLDER, and serve a page that shows it until Ctrl-C. What is recorded meanwhile appears; of a
    capture in a bucket (s3://BUCKET/FOLDER), what is there now.

    The page keeps the newest exchanges that --memory has room for. FILTER, --since and --until choose what is read: of
    a large capture, --since -1h is enough to begin with.

    \b
    kafka-wiretap view capture
    kafka-wiretap view capture 'topic ~ "ord*"' --since -1h
    """
    extras.check("page")
    from recorder.page.serving import Access, CannotServe, serve
    from recorder.page.view import View

    capture = _opened(folder)
    wanted = filter_of_options(capture, [] if filter_text is None else [filter_text], since=since, until=until)
    try:
        access = Access.of(listen, token_file, certificate, key, names)
        viewed = View(capture, wanted, most_bytes=memory)
        server = serve(viewed.recent, viewed.source, access, partial(say, err=True))
    except CannotServe as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.ClickException(error.strerror or str(error)) from error
    with server:
        shown = server.url if token_file else f"{server.url}#token={access.token}"
        # an address is never broken into lines
        echo(f"the page is at {shown} until Ctrl-C", err=True)
        try:
            viewed.run()
        except (DamagedFileError, UnknownFormatError, OverBudget) as error:
            raise click.ClickException(str(error)) from error


def _opened(place: Place) -> Capture:
    """The capture; finished sessions of it are compacted first, unless a proxy records there. Errors: NoCapture."""
    if isinstance(place, Path):
        check_encodes(place)
        check_is_capture(place)
        if any(is_live(place, session) for session in sessions(place)):
            return GrowingCapture(place, [])
    for note in ready_at(place):
        say(f"note: {note}", err=True)
    return Capture(place, [])
