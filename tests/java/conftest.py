"""Provides Kafka's own classes as an oracle."""

from tests.java.kafka_json import kafka_json

__all__ = ["kafka_json"]
