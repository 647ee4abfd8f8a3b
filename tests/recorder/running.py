"""Runs the recorder's commands as a shell does."""

from pathlib import Path

from click.testing import CliRunner, Result

from recorder.commands import COMMANDS


def run(name: str, *arguments: object) -> Result:
    """Runs a command with these arguments."""
    return CliRunner().invoke(COMMANDS[name], [str(argument) for argument in arguments])


def unread_capture(parent: Path) -> Path:
    """A capture's folder, with a file that nothing reads."""
    hour = parent / "capture" / "frames" / "date=2026-11-21" / "hour=12"
    hour.mkdir(parents=True)
    (hour / "a-1-1.parquet").touch()
    return parent / "capture"
