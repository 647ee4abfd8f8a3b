"""Runs samsa on Jython 2.7: `samsa_client.py SAMSA_FOLDER PORT...`.

It makes each of samsa's calls with each port on loopback, and prints a line of JSON each: the call, its arguments, its
result. samsa's source is unchanged. But Jython's `struct.Struct` can't be subclassed, packs into no bytearray and takes
no keywords, unlike CPython's: samsa gets the `Struct` of this module instead.
"""

import json
import struct
import sys
import types


class Struct(object):  # noqa: UP004  # of Python 2
    def __init__(self, layout):
        self.format = layout
        self.size = struct.calcsize(layout)

    def pack(self, *values):
        return struct.pack(self.format, *values)

    def pack_into(self, buf, offset, *values):
        buf[offset : offset + self.size] = self.pack(*values)

    def unpack(self, data):
        return struct.unpack(self.format, bytes(data))

    def unpack_from(self, buf, offset=0):
        return struct.unpack(self.format, bytes(buf[offset : offset + self.size]))


standin = types.ModuleType("struct")
standin.__dict__.update(Struct=Struct, error=struct.error, pack=struct.pack)
sys.modules["struct"] = standin
sys.path.insert(0, sys.argv[1])

from samsa import client, exceptions, handlers  # noqa: E402

LATEST, EARLIEST = client.OFFSET_LATEST, client.OFFSET_EARLIEST
# each message takes 9 bytes beside its payload, 10 of version 1
CALLS = [
    ("produce", ("clicks", 0, ["first", "second", ""])),
    ("produce", ("clicks", 1, ["x", "y"], 1)),
    ("multiproduce", ([("clicks", 2, ["m1", "m2"]), ("others", 0, ["m3"])],)),
    ("multiproduce", ([("clicks", 2, ["v1"])], 1)),
    ("fetch", ("clicks", 0, 0, 1000)),
    ("fetch", ("clicks", 0, 14, 1000)),
    ("fetch", ("clicks", 0, 14, 20)),
    ("fetch", ("clicks", 0, 38, 1000)),
    ("fetch", ("clicks", 1, 0, 8)),
    ("fetch", ("clicks", 1, 11, 1000)),
    ("fetch", ("nobody's", 0, 0, 1000)),
    ("fetch", ("clicks", 9, 0, 1000)),
    ("fetch", ("clicks", 0, 999, 1000)),
    (
        "multifetch",
        (
            [
                ("clicks", 0, 14, 1000),
                ("clicks", 2, 0, 1000),
                ("clicks", 2, 11, 15),
                ("others", 0, 0, 99),
                ("no", 0, 0, 9),
            ],
        ),
    ),
    ("offsets", ("clicks", 0, LATEST, 10)),
    ("offsets", ("clicks", 0, EARLIEST, 10)),
    ("offsets", ("others", 0, 1321825000000, 1)),
]


def told(found):
    """Messages as lists, whatever they are in; numbers as they are."""
    if isinstance(found, client.Message):
        return [found.offset, found.next_offset, str(found.payload), found["magic"], found.valid]
    return [told(one) for one in found] if hasattr(found, "__iter__") else found


def called(samsa, name, arguments):
    try:
        return told(getattr(samsa, name)(*arguments))
    except exceptions.ProtocolClientError as error:
        return type(error).__name__


for port in sys.argv[2:]:
    samsa = client.Client("127.0.0.1", handlers.ThreadingHandler(), port=int(port))
    talk = [{"call": name, "arguments": arguments, "gave": called(samsa, name, arguments)} for name, arguments in CALLS]
    samsa.disconnect()
    sys.stdout.write(json.dumps(talk) + "\n")
