"""Runs the recorder's commands as a shell does."""

from click.testing import CliRunner, Result

from recorder.commands import COMMANDS


def run(name: str, *arguments: object) -> Result:
    """Runs a command with these arguments."""
    return CliRunner().invoke(COMMANDS[name], [str(argument) for argument in arguments])
