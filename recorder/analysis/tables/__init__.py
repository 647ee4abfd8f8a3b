"""The tables of a capture: functions that make a DataFrame of the capture's frames and events, each declared once.

frames       the capture's own tables, as scans
answers      what each answer says of errors and waits
exchanges    requests and their answers, joined only where they must be
latency_buckets  latencies counted in buckets, which add up
errors       a row for each code in an answer
happenings   sessions, connections, gaps: of events alone
names        ids of topics and clusters; the tables of bodies with names in them
clients      who the clients are, what they speak, what becomes of it at Kafka 4
topic_use    who writes and who reads each topic
batches      record batches, with the offsets that they got
deliveries   record batches from producer to consumer
records      records, with the consumer's position
fetch_sessions  which partitions Fetch requests stand for
transactions    when they began, what they hold, how they ended
encodings    what integers take, and would take in other encodings
metadata_changes  how leaders, replicas and nodes changed
"""
