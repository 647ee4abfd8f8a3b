"""`export --pcapng`: the checks before a packet dump is written, and what is said of it."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from proxy.terminal import echo, printable
from recorder import extras
from recorder.export.choosing import chosen
from recorder.export.refused import CantExport
from recorder.terminal import console, count, measured, size


def write_dump(folder: str, file: Path | None, filters: tuple[str, ...], since: Any, until: Any) -> None:
    """Writes the frames of a capture to a file. Errors: CantExport, NoCapture, WrongFilter."""
    if file is None:
        raise CantExport("no FILE to write to; right would be --pcapng capture dump.pcapng")
    if os.path.lexists(file):
        raise CantExport(f"{printable(file)} exists; right would be a new file")
    extras.check("pcap")
    from recorder.export.pcapng import export

    try:
        program = f"kafka-wiretap {version('kafka-wiretap')}"
    except PackageNotFoundError:
        program = "kafka-wiretap"
    hidden = file.with_name(f".{secrets.token_hex(4)}.part")
    try:
        with (
            chosen(folder, filters, since, until) as (capture, wanted),
            hidden.open("xb") as opened,
            console(stderr=True).status("writing packets ..."),
            measured(lambda: f"({size(hidden.stat().st_size)})"),
        ):
            done = export(capture, wanted, opened, program)
        hidden.rename(file)
    except OSError as error:
        raise CantExport(f"{printable(error.filename or file)}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            hidden.unlink()
    of = f"{count(done.frames, 'frame')} of {count(done.connections, 'connection')}"
    echo(f"wrote {of} to {printable(file)}: {count(done.packets, 'packet')}")
