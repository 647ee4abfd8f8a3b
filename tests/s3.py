"""An S3 server on loopback, over HTTP, for captures in buckets."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pyarrow.fs as fs
from moto.server import ThreadedMotoServer

REGION = "us-east-1"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": REGION}


class Store:
    """A running server. `environment`: the environment variables of its clients."""

    def __init__(self, port: int) -> None:
        self.endpoint = f"http://127.0.0.1:{port}"
        self.environment = {**CREDENTIALS, "AWS_ENDPOINT_URL": self.endpoint}

    def system(self) -> fs.S3FileSystem:
        """A file system of its buckets."""
        return fs.S3FileSystem(
            endpoint_override=self.endpoint,
            region=REGION,
            access_key="test",
            secret_key="test",
            allow_bucket_creation=True,
        )

    def put(self, capture: Path, bucket: str) -> str:
        """Copies a capture's Parquet files into a bucket. Returns its URL."""
        system = self.system()
        system.create_dir(bucket)
        for file in capture.rglob("*.parquet"):
            with system.open_output_stream(f"{bucket}/kept/{file.relative_to(capture)}") as target:
                target.write(file.read_bytes())
        return f"s3://{bucket}/kept"


@contextmanager
def store(*, is_back: bool = False) -> Iterator[Store]:
    """Runs a server within the block. It has no buckets, or if `is_back` those of the last server: it was away."""
    # it logs a line for each request
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        opened = Store(server.get_host_and_port()[1])
        if not is_back:
            # moto keeps what servers hold in the process
            urlopen(f"{opened.endpoint}/moto-api/reset", data=b"").close()
        yield opened
    finally:
        server.stop()
