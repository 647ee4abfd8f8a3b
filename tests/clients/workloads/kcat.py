"""kcat: an older librdkafka, as distributions have it, in a popular program."""

import json
import subprocess

from tests.brokers.waiting import PATIENCE
from tests.clients.workloads import CODECS_AND_ACKS, PARTITIONS, fresh, values
from tests.clients.workloads.confluent import create_topic


def produces_and_consumes(bootstrap: str) -> None:
    """Every codec with every acks; each record is read again, by partition and by a group's member."""
    topic, wanted = create_topic(bootstrap, "kcat", partitions=PARTITIONS), []
    for number, (codec, acks) in enumerate(CODECS_AND_ACKS):
        sent = values(f"{codec} {acks}", 20)
        produce(bootstrap, topic, number % PARTITIONS, sent, codec, acks)
        wanted += sent
    read = [value for partition in range(PARTITIONS) for value in consume(bootstrap, topic, partition)]
    assert sorted(read) == sorted(wanted)
    assert sorted(consume_as_member(bootstrap, topic, len(wanted))) == sorted(wanted)


def brokers(bootstrap: str) -> dict[int, str]:
    """Node id -> "host:port", as the metadata listing shows them."""
    listed = json.loads(_kcat(bootstrap, "-L", "-J"))
    return {broker["id"]: broker["name"] for broker in listed["brokers"]}


def produce(bootstrap: str, topic: str, partition: int, sent: list[bytes], codec: str, acks: str) -> None:
    how = ["-X", f"compression.codec={codec}", "-X", f"acks={acks}"]
    _kcat(bootstrap, "-P", "-t", topic, "-p", str(partition), *how, given=b"\n".join(sent) + b"\n")


def consume(bootstrap: str, topic: str, partition: int) -> list[bytes]:
    """Reads all of a partition."""
    return _kcat(bootstrap, "-C", "-q", "-e", "-t", topic, "-p", str(partition), "-o", "beginning").splitlines()


def consume_as_member(bootstrap: str, topic: str, count: int) -> list[bytes]:
    """The topic's first `count` values, read by a group's only member."""
    how = ["-q", "-c", str(count), "-X", "auto.offset.reset=earliest"]
    return _kcat(bootstrap, *how, "-G", fresh("group"), topic).splitlines()


def _kcat(bootstrap: str, *arguments: str, given: bytes = b"") -> bytes:
    """Returns its standard output; a user's own settings are ignored."""
    command = ["kcat", "-F", "/dev/null", "-b", bootstrap, "-m", str(PATIENCE), *arguments]
    done = subprocess.run(command, input=given, capture_output=True, timeout=PATIENCE * 2, check=False)
    assert done.returncode == 0, (command, done.stderr.decode(errors="replace")[-2000:])
    return done.stdout
