import pytest

from proxy.wire.errors import Malformed
from proxy.wire.records import ControlType, Record, control_key
from proxy.wire.records.kinds import CONTROL_TYPES
from proxy.wire.records.record import as_records, control_type, int64
from tests.tables import each_row


def test_chunks_of_tuples_become_records() -> None:
    records = [Record(1, 2, b"k", b"v"), Record(2), Record(3)]
    found = list(as_records([[records[0][:]], [], [one[:] for one in records[1:]]]))
    assert found == records
    assert found[0].value == b"v"
    assert type(found[0]) is Record


@each_row(
    ("key", "kind"),
    [
        (b"\0\0\0\0", ControlType.ABORT),
        (b"\0\0\0\1", ControlType.COMMIT),
        (b"\0\1\0\2", ControlType.LEADER_CHANGE),
        (b"\0\0\0\3", ControlType.SNAPSHOT_HEADER),
        (b"\0\0\0\4 and more of a later version", ControlType.SNAPSHOT_FOOTER),
        (b"\0\0\0\5", ControlType.KRAFT_VERSION),
        (b"\0\0\0\6", ControlType.KRAFT_VOTERS),
        (b"\0\0\0\7", ControlType.UNKNOWN),
        (b"\0\0\xff\xff", ControlType.UNKNOWN),
    ],
)
def test_a_control_records_key_tells_what_it_is(key: bytes, kind: ControlType) -> None:
    assert control_type(key) is kind


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\0"])
def test_a_control_records_key_without_a_type_is_malformed(key: bytes | None) -> None:
    with pytest.raises(Malformed):
        control_type(key)


def test_keys_are_written_as_they_are_read() -> None:
    assert control_key(ControlType.COMMIT) == b"\0\0\0\1"
    assert [control_type(control_key(kind)) for kind in CONTROL_TYPES] == list(CONTROL_TYPES)
    with pytest.raises(ValueError, match="UNKNOWN"):
        control_key(ControlType.UNKNOWN)


@pytest.mark.parametrize(
    ("value", "wrapped"), [(5, 5), (-5, -5), (1 << 63, -(1 << 63)), (-(1 << 63) - 1, (1 << 63) - 1)]
)
def test_sums_wrap_at_64_bits(value: int, wrapped: int) -> None:
    assert int64(value) == wrapped
