"""Lists and reads the files of a capture in an S3 bucket, `s3://bucket/folder`.

Used by `reader` and by commands that take such URLs. pyarrow speaks S3. It finds credentials as Amazon's own tools do:
AWS_ACCESS_KEY_ID and so on, a profile, a machine's role. AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL names another store
than Amazon's. Each process opens its own connection, when it needs one.

`S3Path` has the part of `pathlib.Path` that readers use, and what facts are published by. Published files never change,
so a size is asked for only once.
"""

from __future__ import annotations

import io
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from recorder.capture import frames as c

SCHEME = "s3://"
_READ_AS_PATH = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)
# how long a request waits for a store that does not answer, and how often it is tried
_PATIENCE_S, _TRIES = 10, 3
# bytes that are fetched at a time, as a block, while a reader goes from page header to page header
_BLOCK_BYTES = 1 << 20
# files that are copied at the same time: most are small, and wait for the store
_COPIES = 8
# an error text of AWS's library, around the reason
_REASON = re.compile(r".*AWS Error (?P<kind>\w+) during \w+ operation: (?P<why>.*?)( \(Request ID: .*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class S3Path:
    """A folder or a file in a bucket. `key`: the bucket's name, and the names below it."""

    key: PurePosixPath

    def __str__(self) -> str:
        return f"{SCHEME}{self.key}"

    def __truediv__(self, name: str) -> S3Path:
        """What has this name, or this path, in the folder."""
        return S3Path(self.key / name)

    @property
    def name(self) -> str:
        """The last name."""
        return self.key.name

    @property
    def stem(self) -> str:
        """The last name without its ending."""
        return self.key.stem

    @property
    def parent(self) -> S3Path:
        """The folder."""
        return S3Path(self.key.parent)

    @property
    def parents(self) -> list[S3Path]:
        """The folder, that folder's folder, and so on."""
        return [S3Path(key) for key in self.key.parents]

    def absolute(self) -> S3Path:
        """This path: a URL is always absolute."""
        return self

    def open(self, mode: str = "rb") -> Any:
        """The file, opened for reading, or for writing ("wb"): it is there once it is closed. Errors: OSError."""
        if mode == "wb":
            _SIZES.pop(str(self), None)
            return file_system().open_output_stream(str(self.key))
        return io.BufferedReader(_Blocks(file_system().open_input_file(str(self.key))), 1)

    def remove(self) -> None:
        """Removes the file, if it is there. Errors: OSError."""
        _SIZES.pop(str(self), None)
        with suppress(FileNotFoundError):
            file_system().delete_file(str(self.key))

    def names(self) -> list[str]:
        """The names of the files in the folder, sorted; none if it is missing. Errors: OSError."""
        return [info.base_name for info in _listed(self, "") if info.size is not None]


class _Blocks(io.RawIOBase):
    """A file in a store, fetched in blocks. Keeps the last block, because a reader goes from header to header."""

    def __init__(self, file: Any) -> None:
        self._file, self._at, self._size = file, 0, file.size()
        self._number, self._block = -1, b""

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Sets the position; returns it."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        """The position of the next byte."""
        return self._at

    def readinto(self, target: Any) -> int:
        """Reads the next bytes, at most up to the end of a block; returns their number."""
        number, begin = divmod(self._at, _BLOCK_BYTES)
        if number != self._number and self._at < self._size:
            self._file.seek(number * _BLOCK_BYTES)
            self._number, self._block = number, self._file.read(_BLOCK_BYTES)
        chunk = self._block[begin : begin + len(target)] if number == self._number else b""
        target[: len(chunk)] = chunk
        self._at += len(chunk)
        return len(chunk)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
        super().close()


Place = Path | S3Path
_SIZES: dict[str, int] = {}


def is_url(place: str) -> bool:
    """True for a URL, False for a path on this machine."""
    return "://" in place


def was_url(path: str) -> bool:
    """True for a URL, and for what is left of one that was read as a path: two slashes are one then."""
    return _READ_AS_PATH.match(path) is not None


def place_at(text: str) -> Place:
    """The `Path` or `S3Path` of a path or an `s3://` URL."""
    if not text.startswith(SCHEME):
        return Path(text)
    return S3Path(PurePosixPath(text.removeprefix(SCHEME)))


def size_of(place: Place) -> int:
    """The size of a file in bytes. Errors: OSError."""
    if isinstance(place, Path):
        return place.stat().st_size
    if str(place) not in _SIZES:
        with place.open() as file:
            _SIZES[str(place)] = file.seek(0, io.SEEK_END)
    return _SIZES[str(place)]


def copy(source: Place, target: Place) -> None:
    """Copies a file; makes the folders of one on this machine. Errors: OSError."""
    if isinstance(target, Path):
        target.parent.mkdir(parents=True, exist_ok=True)
    with source.open("rb") as read, target.open("wb") as write:
        shutil.copyfileobj(read, write)


def copied(files: Mapping[str, Sequence[str]], capture: str, into: Path) -> dict[str, str]:
    """Copies files of the capture at a URL into a folder, some at a time. Returns their paths there. Errors: OSError.

    `files`: URLs by table.
    """
    places = [place_at(file) for names in files.values() for file in names]
    targets = [into / str(place).removeprefix(capture.rstrip("/") + "/") for place in places]
    with ThreadPoolExecutor(_COPIES) as pool:
        list(pool.map(copy, places, targets))
    return {str(place): str(target) for place, target in zip(places, targets, strict=True)}


def file_system_of(place: Place) -> tuple[Any, str]:
    """pyarrow's file system of a place, and the place's name in it."""
    import pyarrow.fs as fs

    return (file_system(), str(place.key)) if isinstance(place, S3Path) else (fs.LocalFileSystem(), str(place))


def file_system() -> Any:
    """pyarrow's S3 file system."""
    return _opened(os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL"))


@cache
def _opened(endpoint: str | None) -> Any:
    import pyarrow.fs as fs

    return fs.S3FileSystem(
        endpoint_override=endpoint,
        connect_timeout=_PATIENCE_S,
        request_timeout=_PATIENCE_S,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_TRIES),
    )


def published_files(capture: S3Path, table_name: str) -> Iterator[tuple[str, str, S3Path]]:
    """The published files of a table: date, hour, path. Lists one hour at a time. Errors: OSError."""
    for day in _listed(capture / table_name, f"{c.DATE}="):
        for hour in _listed(S3Path(PurePosixPath(day.path)), f"{c.HOUR}="):
            for file in _listed(S3Path(PurePosixPath(hour.path)), ""):
                name = file.base_name
                if file.size is not None and name.endswith(".parquet") and not name.startswith((".", "_")):
                    path = S3Path(PurePosixPath(file.path))
                    _SIZES[str(path)] = file.size
                    yield day.base_name.partition("=")[2], hour.base_name.partition("=")[2], path


def _listed(folder: S3Path, begins: str) -> list[Any]:
    import pyarrow.fs as fs

    infos = file_system().get_file_info(fs.FileSelector(str(folder.key), allow_not_found=True))
    return sorted((info for info in infos if info.base_name.startswith(begins)), key=lambda info: info.base_name)


def reason_of(error: OSError) -> str:
    """The reason of an error of a store or of the network, in one line, without the library's words around it."""
    text = " ".join(str(error).split())
    match = _REASON.fullmatch(text)
    return f"{match['kind'].lower().replace('_', ' ')}: {match['why']}" if match else text
