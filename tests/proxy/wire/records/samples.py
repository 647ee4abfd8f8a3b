"""Generates records of any format, with more edge cases than chance would give."""

from hypothesis import strategies as st

from proxy.wire.records import Compression, Record
from tests.sweeps import examples

# for properties that run with every codec
few = examples(25)

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
# lengths around those at which a varint takes another byte, and long ones that codecs can compress
SIZES = [0, 1, 63, 64, 65, 127, 128, 8191, 8192]
FIELDS = st.none() | st.binary(max_size=80) | st.sampled_from([bytes([size & 255]) * size for size in SIZES])
NAMES = st.text(max_size=5) | st.sampled_from(["", "Grüße", "x" * 64])
HEADERS = st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=70)), max_size=3).map(tuple)
TIMES = st.integers(1_700_000_000_000, 1_700_000_010_000) | INT64
# mostly small steps: a log has few holes
STEPS = st.integers(1, 2) | st.integers(1, 20_000)
MESSAGE_CODECS = [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4]
BATCH_CODECS = [*MESSAGE_CODECS, Compression.ZSTD]


@st.composite
def record_lists(draw: st.DrawFn, *, headers: bool = True, smallest: int = 0, tame: bool = False) -> list[Record]:
    """Draws records with rising offsets. `tame`: as producers write them, without extremes and holes."""
    offset = draw(st.integers(0, 1000) | st.integers(0, 1 << 62))
    found = []
    for _ in range(draw(st.integers(smallest, 5))):
        timestamp = draw(st.integers(0, 1 << 41) if tame else TIMES)
        named = draw(HEADERS) if headers else ()
        found.append(Record(offset, timestamp, draw(FIELDS), draw(FIELDS), named))
        offset += 1 if tame else draw(STEPS)
    # deltas of two bytes
    more = draw(st.sampled_from([0, 0, 70])) if found else 0
    return found + [Record(offset + place, found[0].timestamp, b"k", b"v") for place in range(more)]


def plain_records(count: int, *, offset: int = 0) -> list[Record]:
    """Draws records: some keys, some tombstones, a few headers."""
    return [
        Record(
            offset + place,
            1_700_000_000_000 + 7 * place,
            b"key-%d" % place if place % 3 else None,
            None if place % 10 == 9 else b"value %d " % place * (place % 40),
            (("trace", b"%d" % place), ("empty", None)) if place % 5 == 0 else (),
        )
        for place in range(count)
    ]
