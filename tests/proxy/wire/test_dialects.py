"""Tests of the names of the two dialects, which settings, logs and captures hold."""

from proxy.wire.dialects import Dialect
from recorder.capture import frames as c


def test_the_names_are_those_of_the_captures_column():
    assert [dialect.value for dialect in Dialect] == [c.KAFKA, c.KAFKA_07] == ["kafka", "kafka-0.7"]
