"""Reads many messages of one kind at once, a field of all of them at a time, with numpy.

A frame of a kilobyte costs Python some thirty calls, and numpy's share of a few for thousands of frames. So frames that
are alike are read here, and the others one by one (`frame.opened`). What is read is the same, and so is the schema
that says where fields stand (`proxy.wire.compile.layout`): `Vectors` walks it as the compiled decoders do.

Plain messages alone are read so: whole ones, without tagged fields, with short texts in ASCII and with at most
MAX_ELEMENTS in an array. A mask tells which are plain; what the columns hold of others means nothing.

    Spans      a column of texts or bytes: where they stand
    Array      a column of arrays: the elements of all of them, with the message or element that holds each
    Vectors    a position in each message; each read takes one value of each, and steps behind it
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from proxy.wire.budget import Allowance
from proxy.wire.compile.layout import Slot, Struct
from proxy.wire.language import SIZED_TYPES

# Elements are read in turns: the first ones of all arrays, the second ones, and so on.
MAX_ELEMENTS = 64
# elements of all arrays that are read together; a hostile capture has millions of them in a few megabytes
MOST_TOGETHER = 1 << 18
# longer than any topic's name
MAX_TEXT = 255
# the most bytes that one read takes, of a fixed size
WIDEST = 64
# bytes behind the first of an unsigned varint of 32 bits
_MORE_BYTES = 4
_HALF = 128
_ASCII = 128

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]
Column = Any  # NDArray[Any] | Spans | Array


class Spans(NamedTuple):
    """Where values stand in the bytes of all messages. `size`: -1 for null."""

    start: Numbers
    size: Numbers

    def taken(self, at: NDArray[Any]) -> Spans:
        """Those at these numbers, or where the mask is true."""
        return Spans(self.start[at], self.size[at])


class Array(NamedTuple):
    """Arrays of structs. `counts`: how many elements each has; -1: null. `of`: of each element its array's number."""

    counts: Numbers
    of: Numbers
    values: dict[str, Column]


class Vectors:
    """A position in each of many messages in `data`.

    `at`, `end`: offsets of the next byte of each, and of the byte behind it. `data` has WIDEST bytes at least. `left`:
    pays for elements; those of messages that it does not pay for are not plain.
    Attributes: is_plain: whether all that was read of a message was there, and as plain messages have it.
    """

    def __init__(self, data: NDArray[np.uint8], at: Numbers, end: Numbers, left: Allowance | None = None) -> None:
        self._data, self.at, self._end = data, at.copy(), end
        self._left = left or Allowance("elements", MOST_TOGETHER)
        self.is_plain: Mask = np.ones(len(at), bool)

    def struct(self, struct: Struct) -> dict[str, Column]:
        """The fields of a struct, each a column. A tagged field has its default if that is a number, else no column."""
        values = {slot.name: self._value(slot) for slot in struct.slots}
        if struct.flexible:
            self.is_plain &= self.number("B") == 0
            defaults = {slot.name: slot.default for slot in struct.tagged}
            values |= {name: np.full(len(self.at), one) for name, one in defaults.items() if isinstance(one, int)}
        return values

    def number(self, code: str) -> NDArray[Any]:
        """A value of fixed size, by its code of `struct`."""
        found: NDArray[Any] = self.fixed(np.dtype(f">{code}"))
        return found.astype(found.dtype.newbyteorder("="))

    def fixed(self, dtype: np.dtype[Any]) -> NDArray[Any]:
        """A value of numpy's type, also one of several fields."""
        size = dtype.itemsize
        # a value may begin at any byte; what begins behind the last whole one is no value of a plain message
        every: NDArray[Any] = np.ndarray((len(self._data) - size + 1,), dtype, self._data, strides=(1,))
        found: NDArray[Any] = every[np.minimum(self.at, len(every) - 1)]
        self.step(size)
        return found

    def step(self, size: int | Numbers) -> None:
        """Steps over as many bytes of each message; one that has fewer is not plain."""
        after = self.at + size
        self.is_plain &= (after >= self.at) & (after <= self._end)
        self.at = np.where(self.is_plain, after, self._end)

    def _value(self, slot: Slot) -> Column:
        if slot.array:
            return self._array(slot)
        if slot.code == "16s":
            return self.fixed(np.dtype("V16"))
        if slot.code:
            return self.number(slot.code)
        assert slot.type in SIZED_TYPES, "no message that is read so has a struct or a varint outside of tags"
        size = self._length(slot)
        start = self.at
        self.step(np.maximum(size, 0))
        if slot.type == "string":
            self._check_texts(start, size)
        return Spans(start, size)

    def _check_texts(self, start: Numbers, size: Numbers) -> None:
        """Texts of plain messages are short and in ASCII. So are the names of topics."""
        self.is_plain &= size <= MAX_TEXT
        sizes = np.where(self.is_plain, np.maximum(size, 0), 0)
        of = np.repeat(np.arange(len(sizes)), sizes)
        begin = start - (np.cumsum(sizes) - sizes)
        at = np.arange(len(of)) + begin[of]
        self.is_plain[of[self._data[at] >= _ASCII]] = False

    def _length(self, slot: Slot) -> Numbers:
        """The length of a value, or the number of an array's elements; -1: null."""
        if slot.compact:
            length = self._uvarint() - 1
        else:
            length = self.number("h" if slot.type == "string" and not slot.array else "i").astype(np.int64)
        self.is_plain &= length >= (-1 if slot.nullable else 0)
        return length

    def _uvarint(self) -> Numbers:
        value = self.number("B").astype(np.int64)
        for byte in range(1, _MORE_BYTES + 1):
            is_longer = value >= _HALF << 7 * (byte - 1)
            if not is_longer.any():
                return value
            (longer,) = np.nonzero(is_longer)
            inner = Vectors(self._data, self.at[longer], self._end[longer])
            more = inner.number("B").astype(np.int64)
            # the bit that said so is none of the value
            value[longer] += (more - 1) * (_HALF << 7 * (byte - 1))
            self._take_over(longer, inner)
        self.is_plain &= value < 1 << 31
        return value

    def _take_over(self, numbers: NDArray[Any], inner: Vectors) -> None:
        """Goes on behind what was read of some of the messages."""
        self.at[numbers] = inner.at
        self.is_plain[numbers] &= inner.is_plain

    def _array(self, slot: Slot) -> Array:
        counts = self._length(slot)
        # no plain message has numbers or texts in an array
        self.is_plain &= counts <= (MAX_ELEMENTS if slot.struct else 0)
        if not self._left.try_take(int(np.where(self.is_plain, np.maximum(counts, 0), 0).sum())):
            self.is_plain &= counts <= 0
        turns: list[Array] = []
        number = 0
        while slot.struct and (here := np.flatnonzero(self.is_plain & (counts > number))).size:
            inner = Vectors(self._data, self.at[here], self._end[here], self._left)
            turns.append(Array(counts, here, inner.struct(slot.struct)))
            self._take_over(here, inner)
            number += 1
        return turns[0] if number == 1 else joined(counts, turns)


def joined(counts: Numbers, turns: list[Array]) -> Array:
    """The elements of several turns in the order of messages, and of each in its own order."""
    of = np.concatenate([one.of for one in turns]) if turns else np.empty(0, np.int64)
    order = np.argsort(of, kind="stable")
    names = turns[0].values if turns else {}
    return Array(counts, of[order], {name: _joined([one.values[name] for one in turns], order) for name in names})


def _joined(columns: list[Column], order: NDArray[Any]) -> Column:
    """A column of several turns: their values one after the other, then in this order."""
    first = columns[0]
    if isinstance(first, Spans):
        return Spans(*(np.concatenate(parts)[order] for parts in zip(*columns, strict=True)))
    if not isinstance(first, Array):
        return np.concatenate(columns)[order]
    begins = np.cumsum([0, *(len(one.counts) for one in columns[:-1])])
    counts = np.concatenate([one.counts for one in columns])
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    moved = [Array(one.counts, rank[begin + one.of], one.values) for begin, one in zip(begins, columns, strict=True)]
    return joined(counts[order], [one for one in moved if len(one.of)] or moved[:1])
