"""The refusal of an export: the line that the user reads, and the exit code."""

from __future__ import annotations

import click


class CantExport(click.ClickException):
    """Nothing is published; the line says why, and what would be right."""

    exit_code = 2


class PartlyExported(click.ClickException):
    """Some events are published, and no further ones; the line says how many. Exit code 1."""
