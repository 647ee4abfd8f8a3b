"""Kafka's own classes, for the tests of this folder."""

from tests.java.kafka_json import kafka_json

__all__ = ["kafka_json"]
