"""An S3 server on loopback, over HTTP, for captures in buckets."""

from __future__ import annotations

import logging
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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

    def write(self, name: str, content: bytes) -> None:
        """Writes a file, named with its bucket."""
        with self.system().open_output_stream(name) as target:
            target.write(content)

    def content(self, folder: str) -> dict[str, bytes]:
        """The files in a folder of a bucket, by their paths from the folder's parent on."""
        system = self.system()
        infos = system.get_file_info(fs.FileSelector(folder, recursive=True))
        above = len(folder.rpartition("/")[0]) + 1
        files = (info for info in infos if info.type == fs.FileType.File)
        return {info.path[above:]: system.open_input_file(info.path).readall() for info in files}

    def put(self, capture: Path, bucket: str) -> str:
        """Copies a capture's Parquet files into a bucket. Returns its URL."""
        system = self.system()
        system.create_dir(bucket)
        for file in capture.rglob("*.parquet"):
            self.write(f"{bucket}/kept/{file.relative_to(capture)}", file.read_bytes())
        return f"s3://{bucket}/kept"


class Meter:
    """Counts what is fetched through it. `bytes`: of answers so far."""

    def __init__(self) -> None:
        self.bytes = 0


@contextmanager
def metered(store: Store) -> Iterator[tuple[Meter, str]]:
    """Runs a relay before a server within the block: what it has counted, and its endpoint."""
    meter, port = Meter(), int(store.endpoint.rpartition(":")[2])

    class Relay(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.create_connection(("127.0.0.1", port)) as server:
                asking = threading.Thread(target=relayed, args=(self.request, server), daemon=True)
                asking.start()
                for size in relayed_sizes(server, self.request):
                    meter.bytes += size

    def relayed(source: socket.socket, target: socket.socket) -> None:
        for _ in relayed_sizes(source, target):
            pass

    def relayed_sizes(source: socket.socket, target: socket.socket) -> Iterator[int]:
        with suppress(OSError):
            while chunk := source.recv(1 << 16):
                target.sendall(chunk)
                yield len(chunk)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads, block_on_close = True, False

    with Server(("127.0.0.1", 0), Relay) as relay:
        threading.Thread(target=relay.serve_forever, daemon=True).start()
        yield meter, f"http://127.0.0.1:{relay.server_address[1]}"
        relay.shutdown()


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
