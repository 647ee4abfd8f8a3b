"""`kafka-wiretap inspect`: the contents of a capture, without Spark.

    options.py     the options of the commands
    picking.py     which items of a list are shown, and in which order
    following.py   lists that follow a capture
    latency.py     percentiles of latency by API
    groups.py      exchanges counted by topic, client, error
    summary.py     counts and sums of a whole capture
    masked.py      the reasons why frames are masked
    body.py        one frame's bytes as a tree of values, with masked values marked
    show.py        that tree as text or JSON; a hex dump
    connection.py  one connection: its facts, events, exchanges by api
    details.py     the `detail` of an event
    in_force.py    what sessions tell of themselves and of their clusters
    losses.py      a capture's losses, added up in one pass
    lines.py       frames and exchanges as cells or JSON lines
    record_lines.py  records of logs as lines
    chosen_columns.py  columns that a user asks for
    layouts.py     the columns of a list by the terminal's width
    commands.py    the click commands

Lists are streams: they take the memory of a file, not of a capture, and end quietly when the reader of a pipe ends.
"""
