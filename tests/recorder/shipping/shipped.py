"""Ships captures in tests, and compares folders with buckets."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pyarrow.fs as fs

from proxy.files import Folder
from recorder.capture.shipped import SHIP_FOLDER
from recorder.shipping.shipper import Shipper
from recorder.shipping.store import SILENT_SECONDS, Store
from tests.s3 import REGION
from tests.s3 import Store as Server

BUCKET, PREFIX = "shipped", "kept/here"
URL = f"s3://{BUCKET}/{PREFIX}"


@contextmanager
def shipper(
    folder: Path,
    say: Callable[[str], None] = lambda line: None,
    *,
    silent_seconds: float = SILENT_SECONDS,
    credentials: Path | None = None,
    **options: Any,
) -> Iterator[Shipper]:
    """A shipper that never sleeps. `silent_seconds`: how long a store may say nothing; `credentials`: a file."""
    with Folder.at(folder) as capture, capture.make_folder(SHIP_FOLDER) as ship:
        options.setdefault("sleep", lambda seconds: None)
        store = Store(URL, silent_seconds=silent_seconds, credentials=credentials)
        opened = Shipper(folder, ship, store, URL, say, **options)
        try:
            yield opened
        finally:
            opened.close()


def local(folder: Path) -> dict[str, str]:
    """path -> digest of all that is to be shipped, by a plain look at the folder."""
    files = [*folder.rglob("date=*/hour=*/*.parquet"), *folder.glob("facts/_done/*")]
    # facts that a killed process has begun have a marker that counts for nothing
    begun = [file for file in files if file.parent.name == "_done" and b'"number":-1' in file.read_bytes()]
    counted = [file for file in files if file not in begun and not file.name.startswith(".")]
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in counted}


def remote(server: Server) -> dict[str, str]:
    """path -> digest of all that the bucket holds."""
    system = server.system()
    found = {}
    for info in system.get_file_info(fs.FileSelector(BUCKET, recursive=True)):
        if info.type is fs.FileType.File:
            with system.open_input_stream(info.path) as stream:
                found[info.path.removeprefix(f"{BUCKET}/{PREFIX}/")] = hashlib.sha256(stream.read()).hexdigest()
    return found


def told(server: Server) -> dict[str, str]:
    """path -> digest that the store tells of all that the bucket holds, whatever its bytes are."""
    client = boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        region_name=REGION,
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )
    found = {}
    for path in remote(server):
        head = client.head_object(Bucket=BUCKET, Key=f"{PREFIX}/{path}", ChecksumMode="ENABLED")
        found[path] = base64.b64decode(head["ChecksumSHA256"]).hex()
    return found


def puts(front: Any) -> dict[str, int]:
    """path -> how often the store took it."""
    return {key.removeprefix(f"{BUCKET}/{PREFIX}/"): number for key, number in front.puts.items()}
