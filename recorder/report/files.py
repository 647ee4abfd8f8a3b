"""The file of a report. It replaces an earlier one whole, or not at all. A replay's name decides: JSON or HTML."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import mkstemp
from typing import Any

from proxy.terminal import printable
from recorder import extras
from recorder.replay.outcome import Result
from recorder.replay.results.report import as_json

JSON, HTML = ".json", ".html"


class CantReport(ValueError):
    """A report can't be written to a file of this name. The text says what would be right."""


def check(path: Path) -> None:
    """Checks before a replay if its report can be written. Errors: CantReport; MissingPackages for HTML."""
    if path.suffix.lower() not in (JSON, HTML):
        raise CantReport(f"{printable(path)}: a report's name ends with {JSON} or {HTML}")
    check_place(path)
    if path.suffix.lower() == HTML:
        extras.check("report")


def check_place(path: Path) -> None:
    """Checks if a file of this name can be written. Errors: CantReport."""
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise CantReport(f"{printable(path)} can't be written: no file, or no folder that may be written to")


def write(result: Result, path: Path) -> None:
    """Writes the report. Errors: OSError; others as for `check`."""
    check(path)
    put(_html(result, path) if path.suffix.lower() == HTML else as_json(result), path)


def put(text: str, path: Path) -> None:
    """Writes the text of a report. Errors: as for `put_whole`."""
    put_whole(path, partial(Path.write_text, data=text, encoding="utf-8"))


def put_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Replaces the file at `path` by one that `write` makes, or leaves it as it was. Errors: OSError."""
    handle, name = mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _html(result: Result, path: Path) -> str:
    # packages of an extra
    from recorder.report.replay import html

    return html(result, str(path))
