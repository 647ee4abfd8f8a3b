"""Recorded frames -> rows, by the wire alone: no Spark here, so all of it is tested without a JVM.

    frame             a frame opened, or the reason why it can't be
    rows              Arrow batches of frames -> Arrow batches of a table's rows
    topic_partitions  (frame, topic, partition) that a frame names
    batches           headers of record batches
    record_rows       the records in them
    cloudevents       the event that a record holds, by the Kafka binding; cloudevent_rows: its rows
    checked_batches   headers of record batches with checksums and samples, for rules
    transactions      steps of transactions, their answers, markers
    fetch_sessions    what Fetch requests ask for, and in which session
    names             ids of topics and clusters, as brokers tell them
    software          what clients say they are, and the versions that brokers offer
    metadata          partitions with their leaders and replicas, and nodes
    answers           error codes and waits
    messages          any frame as JSON
    encodings         the bytes of its integers in other encodings

A `Decoder` declares a table: its columns, the frames that it is made of, and the function that reads a frame.
"""
