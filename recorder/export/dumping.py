"""`export --pcapng`: the checks before a packet dump is written, and what is said of it."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proxy.terminal import echo, printable
from proxy.wire.errors import OverBudget
from recorder import extras
from recorder.capture.frames import DamagedFileError, UnknownFormatError
from recorder.export.refused import CantExport
from recorder.inspect.commands import WrongFilter
from recorder.terminal import console, count, measured, size

if TYPE_CHECKING:
    from recorder.query.shorthand import Filter
    from recorder.reading.capture import Capture


def write_dump(folder: str, file: Path | None, filters: tuple[str, ...], since: Any, until: Any) -> None:
    """Writes the frames of a capture to a file. Errors: CantExport, NoCapture, WrongFilter."""
    from recorder.reading.capture import open as open_capture

    if file is None:
        raise CantExport("no FILE to write to; right would be --pcapng capture dump.pcapng")
    if os.path.lexists(file):
        raise CantExport(f"{printable(file)} exists; right would be a new file")
    extras.check("pcap")
    from recorder.export.pcapng import export

    capture = open_capture(folder)
    for note in capture.notes:
        echo(f"note: {note}", err=True)
    wanted = filter_of_options(capture, filters, since, until)
    try:
        program = f"kafka-wiretap {version('kafka-wiretap')}"
    except PackageNotFoundError:
        program = "kafka-wiretap"
    hidden = file.with_name(f".{secrets.token_hex(4)}.part")
    try:
        with (
            hidden.open("xb") as opened,
            console(stderr=True).status("writing packets ..."),
            measured(lambda: f"({size(hidden.stat().st_size)})"),
        ):
            done = export(capture, wanted, opened, program)
        hidden.rename(file)
    except OverBudget as error:
        raise CantExport(f"the filter can't be answered: {error}") from None
    except (DamagedFileError, UnknownFormatError) as error:
        raise CantExport(str(error)) from None
    except OSError as error:
        raise CantExport(f"{printable(error.filename or file)}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            hidden.unlink()
    of = f"{count(done.frames, 'frame')} of {count(done.connections, 'connection')}"
    echo(f"wrote {of} to {printable(file)}: {count(done.packets, 'packet')}")


def filter_of_options(capture: Capture, filters: tuple[str, ...], since: Any, until: Any) -> Filter | None:
    """The filter of the options; None: everything. Errors: WrongFilter."""
    from recorder.query.language import FilterError
    from recorder.query.shorthand import filter_of

    if not filters and since is None and until is None:
        return None
    times = {
        "since_ns": since and since.resolved(capture.last_ns),
        "until_ns": until and until.resolved(capture.last_ns),
    }
    try:
        return capture.filter(filter_of({}, where=filters, **times))
    except FilterError as error:
        raise WrongFilter(error) from None
