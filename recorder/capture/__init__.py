"""Recording: a log written beside the traffic, and Parquet columns that a process of its own makes of the log.

    in the proxy's process
    tap           the proxy's observer: takes each chunk when it arrives, before it is sent on
    connection_recorder  one connection as the tap sees it: what may be written now, what is masked
    backlog       the entries that are kept back for a connection, with their masked and left-out spans
    redaction     which bytes of a marked frame may not be kept
    gap           counts what was lost in a stretch that isn't recorded
    writer        the thread that writes the tap's entries
    spool         the log's format: segments, entries, checksums
    roll          the writer's account of what the log holds
    lag           how far the compactor is behind
    session       a session's folder: begun, opened, removed; its settings
    lock, status  who may write and compact a session; how far its compactor is

    in the compactor's process
    segments      a segment read while it grows, and past its damaged parts
    facts         the JSON of entries and states: tables of types
    assembly      entries -> connections; finds entries that are missing
    unknown_connections  connections whose opening is lost
    ledger        the reader's totals, compared with the writer's roll
    streams       bytes -> frames again, with the proxy's own conversation room
    cutting       where the frames lie in a chunk, and the exchange of each
    connection_state  one connection as the compactor sees it
    rows, columns frames -> rows -> Arrow, in groups bounded by bytes
    events        rows of `events`: all that is no frame
    ranges        the files of a segment's rows, by hour
    partitions    the folders of the hours
    storage       where closed files go, and in which order
    progress      state files: the next range starts from them
    compaction    segment after segment: files, state, removal; each frame exactly once
    compactor     all sessions of a capture, each for itself; the process

    for readers
    frames        the columns' names and types, the format's number, the upgrade steps
    merging       many small files made into few large ones, in another folder
    outcome       how an exchange ended
    reader        frames and events read out of a capture
    remote        files of a capture in an S3 bucket

entry       one record of the log: bytes of a connection, or a fact about it
segment     one file of the log; compacted as a whole
range       the segments whose frames one set of Parquet files holds; a frame belongs where its last byte stands
hole        where a connection's record breaks off; resync: where it goes on, at a frame's boundary in each direction
roll        at a segment's beginning: which connections are open, what the closed ones held
checkpoint  where a reader that has lost an earlier part of the log may go on with a connection
kept back   arrived and sent on, but not yet written: which bytes must be masked isn't known yet
"""
