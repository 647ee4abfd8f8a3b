"""A capture as Python values: frames, exchanges and records that pass a filter; without Spark.

    capture      `recorder.open`: what readers of a capture start with
    rows         frames in the order of arrival, read file by file
    exchanges    pairs requests with responses in one pass
    heads        what a filter may ask of a frame's or an exchange's head
    known        what facts say of frames, so that they need not be opened; which exchanges may pass a filter
    elements     what a frame says of partitions, groups, members, batches, records, for filters
    told         what other frames tell: names of topics, clients' software
    passing      frames and exchanges that pass a filter; counts those of which nobody can tell
    records      each record of a log: who produced it and when, who fetched it
    schemas      keys and values that name a schema of a registry, decoded
    schema_sources  a registry, or a folder, with schemas
    avro_limits  which Avro schemas are safe to decode foreign data with
    following    frames, exchanges and records as they are recorded

Everything here streams: it takes the memory of a file, not of a capture, within a budget.
"""
