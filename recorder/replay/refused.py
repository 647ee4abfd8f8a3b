"""The refusal of a replay: the line that the user reads, and the exit code."""

from __future__ import annotations

import click


class Refused(click.ClickException):
    """The replay may not begin. Nothing was written to the target, except topics of `--create-topics`."""

    exit_code = 2
