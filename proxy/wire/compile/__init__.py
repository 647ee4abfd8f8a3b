"""Message and version -> functions: the only place that writes Python source.

    layout.py     a message at one version: which fields, in which order, how each is encoded
    source.py     the source being written: lines, names, constants
    cursor.py     reading a buffer forwards: fixed fields that follow each other are read with one `unpack_from`
    decoder.py    bytes -> dict
    counted.py    bytes -> dict, paid for value by value
    costs.py      the memory that decoded values take
    encoder.py    dict -> bytes
    misfit.py     the value that an encoder could not write
    skipper.py    stepping over fields that are not read
    projector.py  chosen fields with their spans
    varints.py    integers in groups of 7 bits
    walker.py     stepping over a message that arrives in pieces
    searcher.py   the secrets' spans in a message that arrives in pieces
    prober.py     a response's error codes in bounded time
    runtime.py    functions that the written functions call

The written functions are flat: no call per field, no object with a position. A read beyond the end raises IndexError
or struct.error, or leaves the offset behind the end; both are turned into the error family once, at the function's
end, which costs nothing until then.
"""
