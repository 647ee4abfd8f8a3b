"""Provides Kafka's own classes."""

from tests.java.kafka_json import kafka_json

__all__ = ["kafka_json"]
