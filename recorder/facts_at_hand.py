"""The facts that a question's tables stand on: those beside a capture's frames, or in the user's cache folder.

A reader makes the facts that are missing, before the first table that needs them: beside the frames, if the capture is
this user's and can be written; else in the cache. Nothing is written into another user's capture or cache, and facts
there are not read either: they may say what the frames don't.

    ~/.cache/kafka-wiretap/facts/<name>/facts/<table>/…    as in a capture; the name is made of the capture's path

Behind a URL they are kept in a temporary folder, as long as the process lives: copied, if the bucket has some, or made.

Facts count only for the frames that they were made of (`fact_files`), so it does not matter what the path held before.
The cache is bounded: captures that were not asked for the longest leave first. Facts that can't be made or kept cost
only time: tables are made of frames then.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from proxy.files import Folder
from proxy.terminal import printable
from proxy.user_folders import cache_folder
from recorder.capture.frames import DamagedFileError, UnknownFormatError
from recorder.terminal import console, count

if TYPE_CHECKING:
    from recorder.capture.fact_files import Stem
    from recorder.capture.fact_maker import Made
    from recorder.capture.remote import Place, S3Path

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


def facts_at_hand(
    folder: Place, *, with_cache: bool = True, make: bool = True, tables: Collection[str] | None = None
) -> AtHand:
    """The facts of a capture.

    Those of a capture in a bucket are on this machine as long as this process lives: copied from the bucket if it has
    them, when they are asked for; else made, if they may be, which copies all at once.

    Args:
        with_cache: whether they may be in the cache folder, or copied; else only in the capture, by URLs in a bucket.
        make: whether those that are missing are made.
        tables: those that the caller reads; None: all.
    """
    from recorder.capture.bucket_facts import paths_in
    from recorder.capture.fact_files import stems
    from recorder.capture.remote import S3Path
    from recorder.facts.tables import TABLES

    try:
        every = stems(folder)
        if isinstance(folder, S3Path) and not with_cache:
            return AtHand({path: found for stem in every for path, found in paths_in(folder, stem).items()})
        if isinstance(folder, S3Path) and not make:
            return AtHand(FactsInBucket(folder, every, tables or [table.name for table in TABLES]))
        if isinstance(folder, S3Path):
            kept = _kept_of(str(folder))
            _copy(folder, every, kept)
            return _at_hand(folder, every, [kept], kept, tables)
        places, into = _places(folder, with_cache)
        return _at_hand(folder, every, places, into if make else None, tables)
    except (OSError, DamagedFileError, UnknownFormatError):
        # the frames' reader says what is wrong with the capture
        return AtHand({})


@cache
def _kept_of(url: str) -> Path:
    """The folder of all facts of a capture in a bucket."""
    return temporary_folder()


def temporary_folder() -> Path:
    """A new folder, which goes with this process."""
    kept = TemporaryDirectory(prefix="kafka-wiretap-facts-")
    atexit.register(kept.cleanup)
    return Path(kept.name)


def _copy(capture: S3Path, every: Sequence[Stem], kept: Path) -> None:
    """Copies facts that a bucket has and that are not here yet."""
    from recorder.capture.bucket_facts import copied
    from recorder.capture.partitions import DONE_FOLDER, FACTS_FOLDER

    left = CACHE_BYTES
    for stem in every:
        if not (kept / FACTS_FOLDER / DONE_FOLDER / stem.name).exists():
            left -= _bytes_of(copied(capture, stem, kept, left))


def _bytes_of(facts: FactFiles) -> int:
    return sum(Path(path).stat().st_size for tables in facts.values() for path in tables.values())


class FactsInBucket(Mapping[str, Mapping[str, str]]):
    """The facts that a capture in a bucket has. Those of a file are copied to this machine when they are asked for.

    So a question about an hour fetches the facts of that hour. They go with this process.

    Args:
        every: the capture's files of frames.
        tables: what is copied.
    """

    def __init__(self, capture: S3Path, every: Sequence[Stem], tables: Collection[str]) -> None:
        self._capture, self._tables, self._left = capture, tables, CACHE_BYTES
        self._stems = {str(file.path): stem for stem in every for file in stem.files}
        self._copied: dict[str, FactFiles] = {}

    def __getitem__(self, path: str) -> Mapping[str, str]:
        from recorder.capture.bucket_facts import copied

        stem = self._stems[path]
        if stem.name in self._marked and stem.name not in self._copied:
            found = copied(self._capture, stem, self._kept, self._left, self._tables)
            self._left -= _bytes_of(found)
            self._copied[stem.name] = found
        return self._copied[stem.name][path]

    def __iter__(self) -> Iterator[str]:
        return (path for path in self._stems if self.get(path) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @cached_property
    def _marked(self) -> frozenset[str]:
        from recorder.capture.bucket_facts import marked

        with suppress(OSError):
            return frozenset(marked(self._capture))
        return frozenset()

    @cached_property
    def _kept(self) -> Path:
        return temporary_folder()


def _places(folder: Path, with_cache: bool) -> tuple[list[Path], Path | None]:
    """The folders in which facts are looked for, and the one in which they are made; None: nowhere."""
    kept = _in_cache(folder) if with_cache else []
    beside = [folder] if is_ours(folder) else []
    with Folder.at(folder) as capture:
        into = [*(beside if capture.is_writable else ()), *kept]
    return [*beside, *kept], into[0] if into else None


def _in_cache(folder: Path) -> list[Path]:
    """The capture's folder in the cache; none if the cache is another user's, as it may be under sudo."""
    name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:32]
    every = (cache_folder(), _cache(), _cache() / name)
    return [every[-1]] if all(is_ours(one) for one in every if one.exists()) else []


def _at_hand(
    folder: Place, every: Sequence[Stem], places: list[Path], into: Path | None, tables: Collection[str] | None
) -> AtHand:
    """The facts in `places`; makes those that are missing in `into`. Errors: as of `fact_maker.missing`."""
    from recorder.capture.fact_files import fact_paths

    found = {stem: _place_of(stem, places, tables) for stem in every}
    lacking = [stem for stem, place in found.items() if place is None]
    made = _make(folder, [stem.name for stem in every if stem not in lacking], lacking, into) if into else None
    if made:
        found |= {stem: _place_of(stem, places, tables) for stem in lacking}
    for cached in {place for place in found.values() if place is not None and place != folder}:
        # the cache forgets first what was not used for the longest
        os.utime(cached)
    files: dict[str, dict[str, str]] = {}
    for stem, place in found.items():
        if place is not None:
            files |= fact_paths(place, stem)
    return AtHand(files, made)


def _make(folder: Place, kept: list[str], lacking: list[Stem], into: Path) -> str | None:
    """Makes the facts of these files; returns the line that says so. Errors: as of `fact_maker.missing`."""
    from recorder.capture.fact_maker import Busy, make_missing
    from recorder.capture.remote import size_of

    if not lacking:
        return None
    size = sum(size_of(file.path) for stem in lacking for file in stem.files)
    if into != folder:
        into.mkdir(mode=0o700, parents=True, exist_ok=True)
    # another process that makes them is not waited for
    with facts_counted() as (made, say), suppress(Busy):
        processes = 1 if size <= SMALL else cores()
        make_missing(folder, leave_out=kept, say=say, processes=processes, into=into, checked=True)
    if into.parent == _cache():
        _bound_cache(into)
    where = f"in {printable(into / 'facts')}" if isinstance(folder, Path) else "for as long as this process runs"
    return f"made the facts of {count(len(made), 'file')} of frames, {where}" if made else None


@contextmanager
def facts_counted() -> Iterator[tuple[list[Made], Callable[[str, str, Any], None]]]:
    """A line that counts the files whose facts are made, within the block.

    Yields what was made so far, and what `make_missing` is to call (`say`).
    """
    from recorder.capture.fact_maker import Made

    made: list[Made] = []
    with console(stderr=True).status("making facts ...") as status:

        def say(what: str, stem: str, more: Any) -> None:
            if isinstance(more, Made):
                made.append(more)
                status.update(f"making facts: {count(len(made), 'file')} done ...")

        yield made, say


def _cache() -> Path:
    """The folder of all captures' facts among the user's caches."""
    from recorder.capture.partitions import FACTS_FOLDER

    return cache_folder() / FACTS_FOLDER


def cores() -> int:
    """How many processes may run at a time."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _place_of(stem: Stem, places: list[Path], tables: Collection[str] | None) -> Path | None:
    """The first of these folders in which the stem's facts count, and are as they were made."""
    from recorder.capture.fact_files import State, state_of

    for place in places:
        with suppress(OSError):
            if state_of(place, stem, checked=True, tables=tables) is State.CURRENT:
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
