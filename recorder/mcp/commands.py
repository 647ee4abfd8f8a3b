"""`kafka-wiretap mcp`: answers an agent's questions about captures, over standard input and output."""

from __future__ import annotations

from pathlib import Path

import click

from proxy.command_line import folders as complete_folders
from proxy.option_types import ROWS, SECOND, SIZE, TIME
from proxy.terminal import printable
from recorder import extras


@click.command(short_help="Let an agent ask about captures, by the Model Context Protocol (stdio).")
@click.argument(
    "folders",
    nargs=-1,
    required=True,
    metavar="FOLDER...",
    type=click.Path(path_type=Path, file_okay=False),
    shell_complete=complete_folders,
)
@click.option("--max-rows", type=ROWS, default=200, show_default=True, help="The most rows of an answer.")
@click.option("--max-bytes", type=SIZE, default="256KiB", show_default=True, help="The most bytes of an answer.")
@click.option("--max-time", type=TIME, default="2m", show_default=True, help="The longest that a question may take.")
def mcp(folders: tuple[Path, ...], max_rows: int, max_bytes: int, max_time: int) -> None:
    """Serve the captures in each FOLDER, or below it, to an agent: list, filter, decode, facts, findings, lag.

    The agent starts this command and speaks with it over standard input and output. It opens only captures in these
    folders, which the agent knows by short names. It reads what inspect, analyze and report read, with secrets masked
    as there. Answers that are too large or take too long are cut, and say so. The command ends when its input does.

    \b
    In an agent's settings:  {"command": "kafka-wiretap", "args": ["mcp", "/var/captures"]}
    """
    extras.check("mcp")
    places = [_place(folder) for folder in folders]
    from recorder.mcp.asking import Limits
    from recorder.mcp.server import serve

    serve(places, Limits(max_rows, max_bytes, max_time / SECOND))


def _place(folder: Path) -> Path:
    """The folder without links. Errors: UsageError."""
    try:
        found = folder.resolve(strict=True)
        if found.is_dir():
            return found
        why = "is no folder"
    except (OSError, RuntimeError, ValueError) as error:
        why = getattr(error, "strerror", None) or "can't be opened"
    raise click.UsageError(f"{printable(folder)}: {why}; right would be a capture, or a folder of captures")
