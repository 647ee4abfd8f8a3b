"""A JVM that answers queries over a pipe, with the `kafka-clients` of one release.

The JVM compiles and runs a Java file beside this one, which takes a second. A query is an int32 length and that many
bytes, and so is an answer. An answer begins with a status: 0, or 1 for an error, whose text follows.
"""

import os
import struct
import subprocess
from pathlib import Path

from tests.brokers import jars
from tests.brokers.waiting import PATIENCE


class KafkaError(ValueError):
    """Kafka's classes can't read or write the bytes or values; the text is Java's."""


class Jvm:
    """The running program `source`. Its stderr is the test's."""

    def __init__(self, release: str, source: Path) -> None:
        # One core and a small heap: the machine's other tests should not notice it.
        options = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmn24m", "-Xmx256m", "-Xshare:auto"]
        command = [jars.java(), *options, "-cp", class_path(release), str(source)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def close(self) -> None:
        self._process.stdin.close()  # type: ignore[union-attr]  # its pipes exist
        self._process.wait(PATIENCE)
        self._process.stdout.close()  # type: ignore[union-attr]

    def ask(self, question: bytes) -> bytes:
        """Returns the answer. Errors: KafkaError; RuntimeError if the JVM has ended."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin
        assert stdout
        stdin.write(struct.pack(">i", len(question)) + question)
        stdin.flush()
        size = stdout.read(4)
        if len(size) < 4:
            raise RuntimeError(f"the JVM ended with exit code {self._process.wait(PATIENCE)}; its stderr says why")
        answer = stdout.read(*struct.unpack(">i", size))
        if answer[0]:
            raise KafkaError(answer[1:].decode())
        return answer[1:]


def class_path(release: str) -> str:
    """Returns that release's `kafka-clients`, and the broker's other jars."""
    others = [jar for jar in sorted(jars.kafka_home().glob("libs/*.jar")) if not jar.name.startswith("kafka-clients")]
    return os.pathsep.join(map(str, [jars.clients_jar(release), *others]))
