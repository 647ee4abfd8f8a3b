"""Runs kafka-python 1.4.7, of 2019, in a process of its own.

Its wheel comes from PyPI, once, into the user's cache; pip checks its sum. It is unpacked into a folder of its own,
which Python searches before today's kafka-python.
"""

import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from tests.brokers.jars import cache_folder, locked
from tests.brokers.waiting import PATIENCE
from tests.clients.workloads import fresh

NAME = "kafka-python-1.4.7"
_PINNED = "kafka-python==1.4.7 --hash=sha256:4fbebebfcb6fc94903fb720fe883d7bbec7298f4f1acb857c21dd3b4b114ba4b\n"
# writes a record, and reads it as a group's member
_PROGRAM = """
import json, sys
from kafka import KafkaConsumer, KafkaProducer

where, own = json.loads(sys.argv[1]), json.loads(sys.argv[2])
if "api_version" in own:
    own["api_version"] = tuple(own["api_version"])
producer = KafkaProducer(bootstrap_servers=where["bootstrap"], **own)
producer.send(where["topic"], b"value").get(where["seconds"])
producer.close()
limits = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 1000 * where["seconds"]}
reader = KafkaConsumer(where["topic"], bootstrap_servers=where["bootstrap"], group_id=where["group"], **limits, **own)
assert next(reader).value == b"value"
reader.commit()
reader.close()
"""


def round_trip(bootstrap: str, **own: Any) -> None:
    """Writes a record and reads it. `own`: settings of both clients, as JSON."""
    where = {"bootstrap": bootstrap, "topic": fresh("old"), "group": fresh("group"), "seconds": PATIENCE}
    command = [sys.executable, "-P", "-c", _PROGRAM, json.dumps(where), json.dumps(own)]
    environment = os.environ | {"PYTHONPATH": str(_folder())}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=4 * PATIENCE)
    assert done.returncode == 0, done.stderr


@cache
def _folder() -> Path:
    """The folder of the unpacked wheel."""
    folder = cache_folder() / NAME
    with locked(NAME), tempfile.TemporaryDirectory(prefix=f".{NAME}-", dir=cache_folder()) as scratch:
        if not folder.is_dir():
            pinned = Path(scratch, "pinned.txt")
            pinned.write_text(_PINNED)
            pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download", "--no-deps"]
            subprocess.run([*pip, "--require-hashes", "--dest", scratch, "--requirement", str(pinned)], check=True)
            (wheel,) = Path(scratch).glob("*.whl")
            unpacked = Path(scratch, "unpacked")
            with ZipFile(wheel) as archive:
                archive.extractall(unpacked)
            unpacked.rename(folder)
    return folder
