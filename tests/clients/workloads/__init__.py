"""The work of each client, as functions of a bootstrap address: the same work runs directly and through the proxy.

Each function asserts what its client must see. Names of topics, groups and transactions are new in each call.
"""

from itertools import product
from uuid import uuid4

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# "all" first: a broker silently drops records with acks=0 for a partition that it doesn't lead yet
ACKS = ("all", "1", "0")
# each is written to in turn
PARTITIONS = 3
CODECS_AND_ACKS = tuple(product(CODECS, ACKS))

# a large record: above every buffer and the default limits of clients and brokers
LARGE_BYTES = 20_000_000
LARGEST_REQUEST = 30_000_000


# kafka-python's consumers lose a wish for a topic's metadata when the response to an earlier request arrives meanwhile.
# They notice at their next regular request: within five minutes by default.
ASKS_SOON = {"metadata_max_age_ms": 1000}


def fresh(name: str) -> str:
    """A name that is new to the cluster."""
    return f"{name}-{uuid4().hex[:8]}"


def values(label: str, count: int) -> list[bytes]:
    """Distinct values that compress a little."""
    return [f"{label} {number} ".encode() * 10 for number in range(count)]
