"""Kafka's two languages. They share nothing but the length in front of a frame, and no frame says which one it is in:
whoever opens a connection knows it.
"""

from enum import StrEnum


class Dialect(StrEnum):
    """What a connection speaks. The value is that of the setting, and of the capture's column."""

    # every version from 0.8 on
    KAFKA = "kafka"
    KAFKA_07 = "kafka-0.7"
