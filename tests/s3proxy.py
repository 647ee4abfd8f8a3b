"""Another S3 server than moto: S3Proxy, which keeps buckets in a folder. It knows no fields of digests."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.brokers.children import spawn, stop
from tests.brokers.jars import Artifact, installed, java
from tests.brokers.waiting import wait_for
from tests.s3 import Store

VERSION = "2.6.0"
SUMS = Path(__file__).with_name(f"s3proxy-{VERSION}.sha256")
_PROPERTIES = """\
s3proxy.endpoint=http://127.0.0.1:{port}
s3proxy.authorization=aws-v2-or-v4
s3proxy.identity=test
s3proxy.credential=test
jclouds.provider=filesystem-nio2
jclouds.identity=none
jclouds.credential=none
jclouds.filesystem.basedir={folder}/data
"""


@contextmanager
def s3proxy(folder: Path) -> Iterator[Store]:
    """A server within the block. RuntimeError says why it can't be had."""
    home = installed(f"s3proxy-{VERSION}", (Artifact("org.gaul:s3proxy", VERSION),), SUMS)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "data").mkdir()
    (folder / "s3proxy.properties").write_text(_PROPERTIES.format(port=port, folder=folder))
    command = [java(), "-cp", f"{home}/libs/*", "org.gaul.s3proxy.Main", "--properties", f"{folder}/s3proxy.properties"]
    server = spawn(command, output=folder / "s3proxy.log")
    try:
        wait_for(lambda: _answers(port), "S3Proxy", hopeless=lambda: "it ended" if server.poll() is not None else None)
        yield Store(port)
    finally:
        stop(server)


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
