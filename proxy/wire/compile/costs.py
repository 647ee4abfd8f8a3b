"""The memory of decoded values, in bytes: CPython's own sizes, rounded up, and doubled for showing them.

These prices come on top of the body's own bytes, which are paid for as a whole before the first value.
"""

from proxy.wire.budget import DEFAULT_BUDGET
from proxy.wire.compile.layout import Slot, Struct

# A dict, and each of its items; a list, and each of its places.
DICT, ITEM, LIST, PLACE = 104, 24, 64, 8
# A number or an id; the head of a text or of bytes.
SCALAR, SIZED = 32, 56
# Showing values makes a tree of them, with dicts and lists of its own.
TIMES_HELD = 2
# An entry of a tag buffer: its span, its number and its bytes.
TAG = 300
# The most memory for one byte of a body: an array's elements have two bytes at least, and a struct of three bytes has
# three lists. The values of a shorter buffer never exceed the budget of a call.
MAX_PER_BYTE = 400
NEVER_TOO_LARGE = DEFAULT_BUDGET // MAX_PER_BYTE
# One find of a projection: the value, its start and its end.
SPAN = 136


def of_struct(struct: Struct) -> int:
    """A struct without the elements of its arrays, which are paid for one by one."""
    slots = list(struct)
    return TIMES_HELD * (DICT + ITEM * len(slots) + PLACE) + sum(map(of_value, slots))


def of_value(slot: Slot) -> int:
    """A field's value; for an array, its list alone."""
    if slot.array:
        return TIMES_HELD * LIST
    if slot.struct:
        return of_struct(slot.struct)
    return SIZED if slot.type in ("string", "bytes", "records", "uuid") else SCALAR


def of_element(slot: Slot) -> int:
    """An element of the array `slot`."""
    return of_struct(slot.struct) if slot.struct else TIMES_HELD * PLACE + of_value(slot.element)
