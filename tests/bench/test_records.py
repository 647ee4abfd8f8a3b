from bench.records import AIOKAFKA, CONTENDERS, KAFKA_PYTHON, LOADS, OURS, Load, Row, produced, rows, table
from proxy.wire import records

LEVEL = (1.0, 1.0, 1.0)


def test_the_produced_records_are_those_of_the_load() -> None:
    data = produced(Load("small", 10, True), 1234)
    found = list(records.read(data))
    assert [one.offset for one in found] == list(range(1234))
    assert {(len(one.key or b""), len(one.value or b"")) for one in found} == {(6, 10)}
    assert sum(1 for _ in records.batches(data)) == 3


def test_every_contender_reads_every_record() -> None:
    for load in LOADS:
        data = produced(load, 1234)
        assert {run(data) for run in CONTENDERS.values()} == {1234}


def test_every_contender_has_a_row_on_every_load() -> None:
    found = rows(count=500, rounds=1)
    assert [(row.load, row.contender) for row in found] == [(load.name, name) for load in LOADS for name in CONTENDERS]
    assert all(row.nanoseconds > 0 for row in found)


def test_the_table_tells_ratios_to_both_and_whether_the_target_is_reached() -> None:
    lines = table(
        [
            Row("load", OURS, 500.0, (1.5, 1.4, 1.6), (0.125, 0.1, 0.2)),
            Row("load", KAFKA_PYTHON, 750.0, LEVEL, LEVEL),
            Row("load", AIOKAFKA, 62.5, (12.0, 11.0, 13.0), LEVEL),
        ]
    ).splitlines()
    assert lines[0] == "records, load"
    assert "500.0 ns a record     1.50 (1.40-1.60) times kafka-python" in lines[1]
    assert lines[1].endswith("0.12 (0.10-0.20) of aiokafka   target 1.5: reached")
    assert lines[2].endswith("750.0 ns a record")
    assert lines[3].endswith("12.00 (11.00-13.00) times kafka-python")


def test_a_missed_target_is_marked() -> None:
    assert table([Row("load", OURS, 500.0, (1.49, 1.0, 2.0), LEVEL)]).endswith("target 1.5: MISSED")
