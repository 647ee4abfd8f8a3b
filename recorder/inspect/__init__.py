"""`kafka-wiretap inspect`: what is in a capture, without Spark.

    wanted.py     which frames: the filters, as a value
    rows.py       frames in the order of their arrival, read file by file
    exchanges.py  requests and responses paired while they pass
    summary.py    counts and sums of a whole capture
    masked.py     why frames are masked
    body.py       one frame's bytes as a tree of values, masked ones named as such
    show.py       that tree as text or JSON; a hex dump
    lines.py      lists as aligned lines or JSON lines
    commands.py   the click commands

Lists are streams: they need the memory of a file, not of a capture, and end quietly when the reader of a pipe does.
"""
