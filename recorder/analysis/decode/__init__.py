"""Turns recorded frames into rows of tables, without Spark: all of it is tested without a JVM.

    frame             opens a frame, or says why it can't be opened
    rows              Arrow batches of frames -> Arrow batches of a table's rows
    packed            rows of several tables in one DataFrame
    topics            the partitions that a message names
    topic_partitions  a row for each partition that a frame names
    topic_errors      error codes of single topics and partitions
    batches           headers of record batches
    checked_batches   the same with checksums and a trial compression, for findings
    record_rows       the records of batches
    cloudevents       the CloudEvent in a record, by the Kafka binding; cloudevent_rows: its rows
    transactions      steps of transactions, their answers, markers
    fetch_sessions    the partitions and fetch sessions that Fetch requests name
    log_ends          ends of partitions' logs
    memberships       steps of group members; group_offsets: commits; group_rows: the shape of both
    group_joins       the assignors in JoinGroup requests
    names             ids of topics and clusters
    software          clients' software, and the versions that brokers offer
    metadata          leaders and replicas of partitions, and nodes
    answers           error codes, throttle times and waits of answers
    messages          any frame as JSON
    encodings         the size of a frame's integers in other encodings

A `Decoder` declares a table: its columns, the frames that it reads, and the function that turns a frame into rows.
"""
