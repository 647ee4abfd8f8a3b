"""The refusal of an export: the line that the user reads, and the exit code."""

from __future__ import annotations

import click


class CantExport(click.ClickException):
    """Nothing was published; the line gives the reason, and what would be right. Exit code 2."""

    exit_code = 2


class PartlyExported(click.ClickException):
    """Only some of the events were published; the line has their number. Exit code 1."""
