"""The command `ship`: copies a capture into a bucket by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from proxy.files import Folder
from proxy.option_types import FILE, of_kind
from proxy.terminal import echo, printable
from recorder import extras
from recorder.capture.lock import Lock
from recorder.capture.remote import was_url
from recorder.capture.shipped import SHIP_FOLDER, SHIP_LOCK
from recorder.capture.shipping_settings import ENDPOINT, REGION, TARGET
from recorder.ready import NoCapture, check_is_capture
from recorder.terminal import console, count, measured, size

# how often a store is tried before the command gives up
TRIES = 4


@click.command(short_help="Copy a capture into an S3 bucket.")
@click.argument("given", metavar="FOLDER")
@click.argument("url", type=of_kind(TARGET, "s3://bucket/folder"))
@click.option("--endpoint", type=of_kind(ENDPOINT, "https://store.example:9000"), help="Another store than Amazon's.")
@click.option("--region", type=of_kind(REGION, "eu-central-1"), help="The bucket's region.")
@click.option("--credentials", type=FILE, help="The keys, in the SDK's format. Default: as the SDK finds them.")
def ship(given: str, url: str, endpoint: str | None, region: str | None, credentials: Path | None) -> None:
    """Copy what is published of the capture in FOLDER to URL: frames, events, facts and origins, oldest first.

    Each file is checked in the bucket by size and SHA-256, and then recorded in FOLDER/_ship. What the bucket has is
    not put again, so the command may be killed at any time, and run again. Nothing in the bucket is removed. A running
    proxy ships by itself (capture.ship).

    \b
    kafka-wiretap ship capture s3://bucket/captures/orders
    """
    if was_url(given):
        raise NoCapture(f"{printable(given)} is a URL; right would be a folder of this machine")
    folder = Path(given)
    check_is_capture(folder)
    extras.check("ship")
    from recorder.shipping.shipper import Shipper
    from recorder.shipping.store import Store, StoreError

    try:
        with Folder.at(folder) as capture, capture.make_folder(SHIP_FOLDER) as records:
            lock = Lock.take(records, SHIP_LOCK)
            if lock is None:
                raise click.ClickException("another process ships this capture: it copies the rest")
            said: list[str] = []
            store = Store(url, endpoint=endpoint, region=region, credentials=credentials)
            shipper = Shipper(folder, records, store, url, said.append)
            with (
                console(stderr=True).status(f"shipping to {printable(url)} ..."),
                measured(lambda: f"({count(shipper.files, 'file')}, {size(shipper.bytes)})"),
            ):
                is_done = shipper.ship_all(TRIES)
            shipper.close()
            lock.release()
    except StoreError as error:
        raise click.ClickException(f"{printable(url)}: {printable(error)}") from error
    except OSError as error:
        raise click.ClickException(f"{printable(error.filename or folder)}: {error.strerror or error}") from error
    there = f"; {count(shipper.there, 'file')} were there" if shipper.there else ""
    echo(f"shipped {count(shipper.files, 'file')}, {size(shipper.bytes)}{there}")
    if not is_done:
        for line in said:
            echo(f"Error: {printable(line)}", err=True)
        sys.exit(1)
