"""The facts that a question's tables stand on: those beside a capture's frames, or in the user's cache folder.

A reader makes the facts that are missing, before the first table that needs them: beside the frames, if the capture is
this user's and can be written; else in the cache. Nothing is written into another user's capture, and its facts are not
read either: they may say what its frames don't.

    ~/.cache/kafka-wiretap/facts/<name>/facts/<table>/…    as in a capture; the name is made of the capture's path

Facts count only for the frames that they were made of (`fact_files`), so it does not matter what the path held before.
The cache is bounded: captures that were not asked for the longest leave first. Facts that can't be made or kept cost
only time: tables are made of frames then.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from proxy.files import Folder
from proxy.terminal import printable
from recorder.capture.frames import DamagedFileError, UnknownFormatError
from recorder.terminal import console, count

if TYPE_CHECKING:
    from recorder.capture.fact_files import Stem

# bytes of all captures' facts in the cache
CACHE_BYTES = 4 << 30
# bytes of frames whose facts this process makes sooner than another one would start
SMALL = 16 << 20
# by the path of a file of frames: by table, the path of its facts
FactFiles = Mapping[str, Mapping[str, str]]


class AtHand(NamedTuple):
    """Facts by file of frames, and a line that says what was made, if anything was."""

    files: FactFiles
    made: str | None = None


def is_ours(folder: Path) -> bool:
    """True if this user owns the folder. Errors: OSError."""
    with Folder.at(folder) as capture:
        return capture.owner == os.geteuid()


def facts_at_hand(folder: Path, *, with_cache: bool = True) -> AtHand:
    """The facts of a capture in a folder of this machine; makes those that are missing.

    `with_cache`: whether they may be in the cache folder; else only in the capture.
    """
    try:
        places, into = _places(folder, with_cache)
        made = _make(folder, places, into) if into else None
        return AtHand(_files(folder, places), made)
    except (OSError, DamagedFileError, UnknownFormatError):
        # the frames' reader says what is wrong with the capture
        return AtHand({})


def cache_folder() -> Path:
    """Where facts of captures are kept that can't be written."""
    base = os.environ.get("XDG_CACHE_HOME") or ""
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "kafka-wiretap" / "facts"


def _places(folder: Path, with_cache: bool) -> tuple[list[Path], Path | None]:
    """The folders in which facts are looked for, and the one in which they are made; None: nowhere."""
    name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:32]
    kept = [cache_folder() / name] if with_cache else []
    beside = [folder] if is_ours(folder) else []
    with Folder.at(folder) as capture:
        into = [*(beside if capture.is_writable else ()), *kept]
    return [*beside, *kept], into[0] if into else None


def _make(folder: Path, places: list[Path], into: Path) -> str | None:
    """Makes the missing facts; returns the line that says so. Errors: as of `fact_maker.missing`."""
    from recorder.capture.fact_files import stems
    from recorder.capture.fact_maker import Busy, Made, make_missing

    every = stems(folder)
    kept = [stem.name for stem in every if _place_of(stem, places)]
    if len(kept) == len(every):
        return None
    left = [file for stem in every if stem.name not in kept for file in stem.files]
    is_small = sum(Path(str(file.path)).stat().st_size for file in left) <= SMALL
    made = 0
    if into != folder:
        into.mkdir(mode=0o700, parents=True, exist_ok=True)
    with console(stderr=True).status("making facts ...") as status:

        def say(what: str, stem: str, more: Any) -> None:
            nonlocal made
            if isinstance(more, Made):
                made += 1
                status.update(f"making facts: {count(made, 'file')} done ...")

        # another process that makes them is not waited for
        with suppress(Busy):
            processes = 1 if is_small else cores()
            make_missing(folder, leave_out=kept, say=say, processes=processes, into=into, checked=True)
    if into != folder:
        _bound_cache(into)
    return f"made the facts of {count(made, 'file')} of frames, in {printable(into / 'facts')}" if made else None


def cores() -> int:
    """How many processes may run at a time."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _place_of(stem: Stem, places: list[Path]) -> Path | None:
    """The first of these folders in which the stem's facts count, and are as they were made."""
    from recorder.capture.fact_files import State, state_of

    for place in places:
        with suppress(OSError):
            if state_of(place, stem, checked=True) is State.CURRENT:
                return place
    return None


def _files(folder: Path, places: list[Path]) -> dict[str, dict[str, str]]:
    from recorder.capture.fact_files import fact_paths, stems

    found: dict[str, dict[str, str]] = {}
    for stem in stems(folder):
        place = _place_of(stem, places)
        if place is not None:
            found |= fact_paths(place, stem)
    return found


def _bound_cache(used: Path) -> None:
    """Removes the facts of captures that were used before all others, until the cache is small enough."""
    os.utime(used)
    kept = sorted((one for one in used.parent.iterdir() if one.is_dir()), key=lambda one: one.stat().st_mtime_ns)
    sizes = {one: sum(file.stat().st_size for file in one.rglob("*") if file.is_file()) for one in kept}
    total = sum(sizes.values())
    for one in kept:
        if total <= CACHE_BYTES or one == used:
            return
        shutil.rmtree(one, ignore_errors=True)
        total -= sizes[one]
