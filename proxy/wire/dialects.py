"""Kafka's two protocols. They share nothing but the length in front of a frame. No frame names its protocol; a setting
names it for all connections of a cluster.
"""

from enum import StrEnum


class Dialect(StrEnum):
    """The protocol that a connection speaks. The value is that of the setting, and of the capture's column."""

    # every version from 0.8 on
    KAFKA = "kafka"
    KAFKA_07 = "kafka-0.7"
