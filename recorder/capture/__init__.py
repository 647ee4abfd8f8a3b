"""Recording: a log written beside the traffic, and Parquet files that a process of its own makes of the log.

    in the proxy's process
    tap              the proxy's observer: takes each chunk when it arrives, before it is sent on
    connection_recorder  the tap's record of one connection: which bytes to write, to mask, or to keep back
    backlog          the entries that are kept back for one connection
    frame_filter     which frames and bytes the settings leave out of one connection's recording
    record_rules, record_filter  what is recorded of topics' records; the record data in one connection's frames
    topic_ids        the names of topics, by their ids
    topic_choice     which exchanges are recorded by the topics that their requests name
    session_topics   the partitions of fetch and share sessions
    redaction        which bytes of a marked frame must be masked
    claims           the principal of a connection, read from its login
    gap              counts what is lost while a connection is not recorded
    writer           the thread that writes the tap's entries
    spool            the log's format: segments, entries, checksums
    inventory        numbers the log's entries, and lists the open connections at each segment's beginning
    direct_io        reads and writes of segments past the page cache
    lag              how far the compactor is behind
    selection        the settings that select what is recorded
    session          a session's folder: begun, opened, removed; the settings of a recording
    compactor_child  keeps the compactor running beside a recording that no proxy looks after
    lock, status     who may write and compact a session; how far its compactor is

    in the compactor's process
    segments         reads a segment while it grows, and past its damaged parts
    entry_json       the JSON of entries and states: a schema for each
    assembly         entries -> connections; finds entries that are missing
    unknown_connections  connections whose opening is lost
    closed_connections   counts connections whose closing is lost
    streams          bytes of connections -> frames, with the proxy's own conversation room
    frame_spans      where the frames lie in a chunk, and the exchange of each
    alike_frames     chunks of a lone frame, and of frames that are alike, which become one row and a count
    connection_state one connection as the compactor sees it
    rows, columns    frames -> rows -> Arrow tables, one for each row group
    told_by_brokers  nodes, racks and features, as brokers told clients of their cluster
    events           rows of `events`: everything that is no frame
    ranges           the Parquet files of one segment's rows, by hour
    partitions       the folders of the hours
    storage          writes Parquet files, and publishes them in a safe order
    progress         state files: the next segment starts from the newest one
    published        which segments have become rows
    resuming         where the compaction of a session resumes
    compaction       one session: segment after segment, each frame exactly once
    compactor        all sessions of a capture; the process

    kept and shipped
    keep             what each session keeps; the volume's floor; readers hold removals back
    retention        removes the oldest hours
    held             lists a capture's published files, for both
    shipping_settings    where the capture is shipped to
    shipped, unshipped   the records of what is shipped; what is still to be (`recorder.shipping` does it)

    facts
    fact_files       the files of facts beside those of frames, and the markers by which they count
    bucket_facts     the same in a bucket: copied from it, published in it
    fact_maker       makes the facts of files of frames; the compactor's child, which `fact_child` looks after

    for readers
    frames           the columns' names and types, the format's number, the upgrade steps
    reader           frames and events read out of a capture
    log_tail         the end of a session's log, while a proxy writes it
    row_group, pages, body_stream  one row group of an untrusted file, within an allowance of memory
    remote           files of a capture in an S3 bucket
    merging          many small files made into few large ones, in another folder
    redacting        rules and choices applied to a finished capture, in another folder
    unchosen         which exchanges a choice of topics leaves out of it
    origins          which exchange of another capture each exchange of a replay replays
    outcome          how an exchange ended

entry          one record of the log. A *bytes entry* holds bytes of one direction of a connection. All others are
               *control entries*: an opening, a login, a gap, and so on
segment        one file of the log; compacted as a whole
range          the rows of one segment, and their Parquet files. A frame belongs to the segment of its last byte; a
               cut-off frame, to the segment of its connection's end
gap            a stretch of a connection that is not recorded. A GAP entry begins it. A RESYNC entry ends it, at a
               frame boundary in each direction
inventory      the first entry of a segment: the open connections, and the totals of the closed ones. END has one too
checkpoint     an entry from which a reader that has lost earlier entries of a connection may go on
kept back      arrived and sent on, but not yet written: the tap doesn't know yet which bytes to mask or to leave out
"""
