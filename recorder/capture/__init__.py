"""What is kept: a log written beside the traffic, and the columns made of it by a process of its own.

    tap           the proxy's observer: takes each chunk when it arrives, before it is sent on
    redaction     which bytes of a marked frame may not be kept
    line          one connection as the tap sees it: bytes kept back, gaps
    writer        the thread that writes what the tap took
    spool         the log's format: segments, entries, checksums
    session       a session's folder: names, locks, settings
    assembly      entries -> frames again, with the proxy's own conversation room
    columns       rows -> Arrow, in groups bounded by bytes
    storage       where closed files go, and in which order
    compactor     segment after segment: files, state, removal; each frame exactly once
    frames        the columns' names and types, the format's number, the upgrade steps
    reader        frames and exchanges out of a capture again

entry       one record of the log: bytes of a connection, or a fact about it
segment     one file of the log; what is compacted at a time
range       the segments whose frames one set of Parquet files holds; a frame belongs where its last byte stands
hole        where a connection's record breaks off; resync: where it goes on, at a frame's boundary in each direction
kept back   arrived and sent on, but not yet written, because it isn't known yet what in it must be masked
"""
