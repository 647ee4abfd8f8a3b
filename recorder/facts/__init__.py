"""What frames say, as rows: the only decoder of frames for tables, by the wire alone. No files, no Spark, no trio.

    schema            how a table is declared: columns, types, meanings
    frame             opens a frame, or says why it can't be opened
    rows              Arrow batches of frames -> Arrow batches of a table's rows
    alike             the frames of a batch that say the same, which are read once
    plain_messages    plain Produces and Fetches, many at once
    vectors           the numpy under it: a field of many messages at a time
    topics            the partitions that a message names
    topic_partitions  a row for each partition that a frame names
    topic_errors      error codes of single topics and partitions
    batches           headers of record batches
    transactions      steps of transactions, their answers, markers
    fetch_sessions    the partitions and fetch sessions that Fetch requests name
    log_ends          ends of partitions' logs
    memberships       steps of group members; group_offsets: commits; group_rows: the shape of both
    group_joins       the assignors in JoinGroup requests
    names             ids of topics and clusters
    software          clients' software, and the versions that brokers offer
    metadata          leaders and replicas of partitions, and nodes
    tables            the tables of facts that a capture keeps beside its frames, and their number
    answers           error codes, throttle times and waits of answers
    response_errors   the errors in one recorded response

A `Decoder` declares a table: its columns, the frames that it reads, and the function that turns a frame into rows. It
reads frames by the names of the columns that a capture has (docs/capture.md), so this room needs no capture.
"""
