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
from proxy.user_folders import cache_folder
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
        return _at_hand(folder, places, into)
    except (OSError, DamagedFileError, UnknownFormatError):
        # the frames' reader says what is wrong with the capture
        return AtHand({})


def _places(folder: Path, with_cache: bool) -> tuple[list[Path], Path | None]:
    """The folders in which facts are looked for, and the one in which they are made; None: nowhere."""
    from recorder.capture.partitions import FACTS_FOLDER

    name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:32]
    kept = [cache_folder() / FACTS_FOLDER / name] if with_cache else []
    beside = [folder] if is_ours(folder) else []
    with Folder.at(folder) as capture:
        into = [*(beside if capture.is_writable else ()), *kept]
    return [*beside, *kept], into[0] if into else None


def _at_hand(folder: Path, places: list[Path], into: Path | None) -> AtHand:
    """The facts in `places`; makes those that are missing. Errors: as of `fact_maker.missing`."""
    from recorder.capture.fact_files import fact_paths, stems

    every = stems(folder)
    found = {stem: _place_of(stem, places) for stem in every}
    lacking = [stem for stem, place in found.items() if place is None]
    made = _make(folder, [stem.name for stem in every if stem not in lacking], lacking, into) if into else None
    if made:
        found |= {stem: _place_of(stem, places) for stem in lacking}
    for cached in {place for place in found.values() if place is not None and place != folder}:
        # the cache forgets first what was not used for the longest
        os.utime(cached)
    files: dict[str, dict[str, str]] = {}
    for stem, place in found.items():
        if place is not None:
            files |= fact_paths(place, stem)
    return AtHand(files, made)


def _make(folder: Path, kept: list[str], lacking: list[Stem], into: Path) -> str | None:
    """Makes the facts of these files; returns the line that says so. Errors: as of `fact_maker.missing`."""
    from recorder.capture.fact_maker import Busy, Made, make_missing

    if not lacking:
        return None
    size = sum(Path(str(file.path)).stat().st_size for stem in lacking for file in stem.files)
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
            processes = 1 if size <= SMALL else cores()
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
