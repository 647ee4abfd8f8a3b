"""What of a capture is exported as packets or spans: the capture, opened, and the filter of the options."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from proxy.terminal import echo
from proxy.wire.errors import OverBudget
from recorder.capture.frames import DamagedFileError, UnknownFormatError
from recorder.export.refused import CantExport
from recorder.inspect.commands import filter_of_options

if TYPE_CHECKING:
    from recorder.query.shorthand import Filter
    from recorder.reading.capture import Capture


@contextmanager
def chosen(folder: str, filters: tuple[str, ...], since: Any, until: Any) -> Iterator[tuple[Capture, Filter | None]]:
    """Opens a capture while the block reads it, and prints the notes on it. With it comes the filter; None: everything.

    Errors: NoCapture, WrongFilter; CantExport for what the block could not read.
    """
    from recorder.reading.capture import open as open_capture

    capture = open_capture(folder)
    for note in capture.notes:
        echo(f"note: {note}", err=True)
    is_all = not filters and since is None and until is None
    wanted = None if is_all else filter_of_options(capture, filters, since=since, until=until)
    try:
        yield capture, wanted
    except OverBudget as error:
        raise CantExport(f"the filter can't be answered: {error}") from None
    except (DamagedFileError, UnknownFormatError) as error:
        raise CantExport(str(error)) from None
