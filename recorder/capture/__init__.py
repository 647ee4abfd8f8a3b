"""What is kept: a log written beside the traffic, and the columns made of it by a process of its own.

    in the proxy's process
    tap           the proxy's observer: takes each chunk when it arrives, before it is sent on
    connection_recorder  one connection as the tap sees it: what may be written now, what is masked
    backlog       the entries that are kept back for a connection, with what is masked and left out of them
    redaction     which bytes of a marked frame may not be kept
    gap           what a stretch that isn't recorded has lost
    writer        the thread that writes what the tap took
    spool         the log's format: segments, entries, checksums
    roll          what the log holds, by the writer's own account
    lag           how far the compactor is behind
    session       a session's folder: how it comes and goes, settings
    lock, status  who may write and compact it; how far its compactor is

    in the compactor's
    segments      a segment read while it grows, and past what is damaged in it
    facts         what entries and states may say: tables of types
    assembly      entries -> connections; what is missing of them
    ledger        the account of a reader, held against the writer's
    streams       bytes -> frames again, with the proxy's own conversation room
    cutting       where the frames lie in a chunk, and whose they are
    connection_state  one connection as the compactor sees it
    rows, columns frames -> rows -> Arrow, in groups bounded by bytes
    events        what happened besides frames
    ranges        the files of a segment's rows, by hour
    partitions    the folders of the hours
    storage       where closed files go, and in which order
    progress      what the next range starts from
    compaction    segment after segment: files, state, removal; each frame exactly once
    compactor     all sessions of a capture, each for itself; the process

    for whoever reads
    frames        the columns' names and types, the format's number, the upgrade steps
    outcome       how an exchange ended
    reader        frames and exchanges out of a capture again

entry       one record of the log: bytes of a connection, or a fact about it
segment     one file of the log; what is compacted at a time
range       the segments whose frames one set of Parquet files holds; a frame belongs where its last byte stands
hole        where a connection's record breaks off; resync: where it goes on, at a frame's boundary in each direction
roll        at a segment's beginning: which connections are open, what the closed ones held
checkpoint  where a connection's record may go on, for whoever has lost a part of the log before
kept back   arrived and sent on, but not yet written, because it isn't known yet what in it must be masked
"""
