"""`kafka-wiretap inspect`: what is in a capture, without Spark.

    wanted.py     the filters of a command, as a value
    rows.py       frames in the order of arrival, read file by file
    exchanges.py  pairs requests with responses in one pass
    summary.py    counts and sums of a whole capture
    masked.py     why frames are masked
    body.py       one frame's bytes as a tree of values, with masked values named as such
    show.py       that tree as text or JSON; a hex dump
    connection.py  one connection: its facts, events, exchanges by api
    losses.py     what a capture lacks, added up in one pass
    lines.py      lists as aligned lines or JSON lines
    commands.py   the click commands

Lists are streams: they take the memory of a file, not of a capture, and end quietly when the reader of a pipe ends.
"""
