"""`kafka-wiretap inspect`: the contents of a capture, without Spark.

    options.py     the options of the commands
    wanted.py      the filters of a command, as a value
    rows.py        frames in the order of arrival, read file by file
    exchanges.py   pairs requests with responses in one pass
    summary.py     counts and sums of a whole capture
    masked.py      the reasons why frames are masked
    body.py        one frame's bytes as a tree of values, with masked values marked
    show.py        that tree as text or JSON; a hex dump
    connection.py  one connection: its facts, events, exchanges by api
    details.py     the `detail` of an event
    losses.py      a capture's losses, added up in one pass
    lines.py       frames and exchanges as cells or JSON lines
    layouts.py     the columns of a list by the terminal's width
    commands.py    the click commands

Lists are streams: they take the memory of a file, not of a capture, and end quietly when the reader of a pipe ends.
"""
