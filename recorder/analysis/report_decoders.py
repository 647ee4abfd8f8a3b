"""The decoders whose tables a report reads: one pass over the capture serves them all.

The decoder `answers` is not among them, because exchanges are computed first, on their own.
"""

from __future__ import annotations

from recorder.analysis.decode.cloudevent_rows import CLOUDEVENTS
from recorder.facts.batches import BATCHES, PRODUCED_OFFSETS
from recorder.facts.fetch_sessions import FETCH_SIZES
from recorder.facts.group_joins import JOINS
from recorder.facts.group_offsets import GROUP_STEPS
from recorder.facts.log_ends import FETCHED_ENDS, PAIRED_ENDS
from recorder.facts.memberships import HEARTBEAT_ANSWERS, HEARTBEAT_REQUESTS
from recorder.facts.metadata import METADATA_STATES
from recorder.facts.names import ANSWERED_NAMES
from recorder.facts.rows import Decoder
from recorder.facts.software import OFFERS, REPLICAS, SOFTWARE
from recorder.facts.topic_partitions import TOPIC_PARTITIONS
from recorder.facts.transactions import MARKERS, TRANSACTION_ANSWERS, TRANSACTION_STEPS

# Decoders that the rules need.
OF_FINDINGS: tuple[Decoder, ...] = (
    HEARTBEAT_REQUESTS,
    BATCHES,
    FETCHED_ENDS,
    FETCH_SIZES,
    GROUP_STEPS,
    JOINS,
    MARKERS,
    METADATA_STATES,
    ANSWERED_NAMES,
    HEARTBEAT_ANSWERS,
    OFFERS,
    PRODUCED_OFFSETS,
    PAIRED_ENDS,
    REPLICAS,
    SOFTWARE,
    TOPIC_PARTITIONS,
    TRANSACTION_ANSWERS,
    TRANSACTION_STEPS,
)
# Decoders that the rules and the sections need.
OF_REPORT = (*OF_FINDINGS, CLOUDEVENTS)
