"""The tables of a capture. Most modules declare one table, and have the function that makes its DataFrame.

frames            the capture's own tables, `frames` and `events`, as scans
answers           error codes, throttle times and waits of answers
exchanges         requests with their answers, joined only where they must be
latency_buckets   latencies counted in buckets, which add up
errors            the error codes in answers
happenings        sessions, connections and gaps, from events alone
names             ids and names of topics and clusters; tables with these names filled in
clients           clients' software and versions, and what Kafka 4 does to these versions
topic_use         the clients that write and read each topic
topic_lives       topics that were deleted and created anew
batches           record batches, with the offsets that produced ones got
produced          what became of Produce requests: accepted, refused, sent again, unanswered
deliveries        record batches from producer to consumer
records           records, with the consumer's position
fetch_sessions    the partitions that Fetch requests stand for
transactions      when transactions began, what they hold, how they ended
group_events      steps of group members, and commits
rebalances        generations of groups; rebalance_causes: why they came about
log_ends          the ends of partitions' logs
lag               the lag of groups; lag_age: how old it is
encodings         the size of integers in other encodings
metadata_changes  changes of leaders, replicas and nodes
"""
