"""The version of this program, as its distribution says it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

DISTRIBUTION = "kafka-wiretap"
UNKNOWN = "unknown"


def program_version() -> str:
    """The version that is installed; UNKNOWN where this runs from sources that are not installed."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return UNKNOWN
