"""The decoders whose tables a report reads: one pass over the capture serves them all.

The decoder `answers` is not among them, because exchanges are computed first, on their own.
"""

from __future__ import annotations

from recorder.analysis.decode.batches import PRODUCED_OFFSETS
from recorder.analysis.decode.checked_batches import CHECKED_BATCHES
from recorder.analysis.decode.cloudevent_rows import CLOUDEVENTS
from recorder.analysis.decode.fetch_sessions import FETCH_SIZES
from recorder.analysis.decode.group_joins import JOINS
from recorder.analysis.decode.group_offsets import GROUP_STEPS
from recorder.analysis.decode.log_ends import FETCHED_ENDS, PAIRED_ENDS
from recorder.analysis.decode.memberships import HEARTBEAT_ANSWERS, HEARTBEAT_REQUESTS
from recorder.analysis.decode.metadata import METADATA_STATES
from recorder.analysis.decode.names import ANSWERED_NAMES
from recorder.analysis.decode.rows import Decoder
from recorder.analysis.decode.software import OFFERS, REPLICAS, SOFTWARE
from recorder.analysis.decode.topic_partitions import TOPIC_PARTITIONS
from recorder.analysis.decode.transactions import MARKERS, TRANSACTION_ANSWERS, TRANSACTION_STEPS

# Decoders that the rules need.
OF_FINDINGS: tuple[Decoder, ...] = (
    HEARTBEAT_REQUESTS,
    CHECKED_BATCHES,
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
