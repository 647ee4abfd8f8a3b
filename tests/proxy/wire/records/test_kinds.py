from proxy.wire.records.kinds import CODECS, CONTROL_TYPES, Compression, ControlType


def test_numbers_on_the_wire_are_kafkas() -> None:
    assert [codec.value for codec in CODECS[:5]] == ["none", "gzip", "snappy", "lz4", "zstd"]
    assert set(CODECS[5:]) == {Compression.UNKNOWN}
    assert len(CODECS) == 8
    assert [kind.value for kind in CONTROL_TYPES] == [
        "abort",
        "commit",
        "leader_change",
        "snapshot_header",
        "snapshot_footer",
        "kraft_version",
        "kraft_voters",
    ]
    assert ControlType.UNKNOWN not in CONTROL_TYPES
