"""What decoded values take in memory, in bytes: CPython's own sizes, rounded up, and once more for showing them.

Prices are of what comes on top of the bytes that were read: those are counted as they are, whole, when a body is begun.
"""

from proxy.wire.budget import DEFAULT_BUDGET
from proxy.wire.compile.layout import Slot, Struct

# A dict, and each of its items; a list, and each of its places.
DICT, ITEM, LIST, PLACE = 104, 24, 64, 8
# A number or an id; the head of a text or of bytes.
SCALAR, SIZED = 32, 56
# Whoever shows values makes a tree of them, with dicts and lists of its own.
TIMES_HELD = 2
# An entry of a tag buffer: where it stands, its number and its bytes.
TAG = 300
# No byte of a body comes to more than so many of values: an array's elements have two bytes at least, a struct of three
# has three lists. A buffer that is shorter never comes to more than the budget of a call.
MOST_PER_BYTE = 400
NEVER_TOO_LARGE = DEFAULT_BUDGET // MOST_PER_BYTE
# What a projection finds: the value, its start and its end.
SPAN = 136


def of_struct(struct: Struct) -> int:
    """A struct without the elements of arrays in it: they are paid for one by one."""
    slots = list(struct)
    return TIMES_HELD * (DICT + ITEM * len(slots) + PLACE) + sum(map(of_value, slots))


def of_value(slot: Slot) -> int:
    """A field's value; of an array, its list alone."""
    if slot.array:
        return TIMES_HELD * LIST
    if slot.struct:
        return of_struct(slot.struct)
    return SIZED if slot.type in ("string", "bytes", "records", "uuid") else SCALAR


def of_element(slot: Slot) -> int:
    """One element of an array."""
    return of_struct(slot.struct) if slot.struct else TIMES_HELD * PLACE + of_value(slot.element)
