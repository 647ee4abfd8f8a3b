"""Reading a buffer forwards, as source: `buf`, and the offset `at`.

Adjacent fields of fixed size are kept pending and read with one `unpack_from`, which also steps over unwanted ones.
The last pending field may be a length: the first byte of a compact one, or all of a classic one.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from proxy.wire.compile.layout import Slot
from proxy.wire.compile.source import Source


@dataclass(frozen=True, slots=True)
class _Detour:
    """A detour, which begins behind this many codes, targets and bytes of the pending fields."""

    when: str
    write: Callable[[], None]
    codes: int
    targets: int
    pending: int


class Cursor:
    """Writes reads of one buffer in order; reads of fixed size are pending until `flush`."""

    # The line that completes a varint of several bytes whose first is in `n`.
    rest_of_varint = "if n > 127: n, at = read_uvarint(buf, at - 1)"
    # The line that steps over the rest of an integer in groups of 7 bits, of at most {} bytes in all.
    rest_of_integer = "if n > 127: at = skip({}, buf, at - 1)"

    def __init__(self, source: Source):
        self.source = source
        self._codes: list[str] = []
        self._targets: list[str] = []
        self._before_step: list[Callable[[], None]] = []
        self._detour: _Detour | None = None
        self.pending = 0  # bytes between `at` and the next field

    def take(self, code: str, size: int, target: str) -> None:
        """Reads the next `size` bytes into `target`."""
        self._codes.append(code)
        self._targets.append(target)
        self.pending += size

    def step(self, size: int) -> None:
        """Steps over the next `size` bytes."""
        self._codes.append(f"{size}x")
        self.pending += size

    def before_step(self, write: Callable[[], None]) -> None:
        """Runs `write` when the pending fields have been read, while `at` is still the offset of the first."""
        self._before_step.append(write)

    def detour(self, code: str, size: int, count: str, when: str, write: Callable[[], None]) -> None:
        """Reads a count into the variable `count`, and the fields behind it as if there were no counted values.

        If the condition `when` holds, counted values stand in between: `write` writes the lines that read them, and the
        fields behind them are read again. The first read stays within the buffer, because the values only add bytes.
        """
        if self._detour:
            self.flush()
        self.take(code, size, count)
        self._detour = _Detour(when, write, len(self._codes), len(self._targets), self.pending)

    def flush(self) -> None:
        """Writes the pending reads; `at` is then the offset behind them."""
        while self._codes and self._codes[-1].endswith("x"):
            self._codes.pop()
        self._read(self._codes, self._targets)
        for write in self._before_step:
            write()
        detour, codes, targets, pending = self._detour, self._codes, self._targets, self.pending
        self._codes, self._targets, self._before_step, self._detour, self.pending = [], [], [], None, 0
        if detour is None:
            self._step(pending)
            return
        with self.source.block(f"if {detour.when}:"):
            self._step(detour.pending)
            detour.write()
            self.flush()
            self._read(codes[detour.codes :], targets[detour.targets :])
            self._step(pending - detour.pending)
        with self.source.block("else:"):
            self._step(pending)

    def _read(self, codes: list[str], targets: list[str]) -> None:
        if codes == ["B"]:
            self.source.line(f"{targets[0]} = buf[at]")
        elif targets:
            read = self.source.unpack("".join(codes))
            self.source.line(f"{', '.join(targets)}{',' * (len(targets) == 1)} = {read}(buf, at)")

    def _step(self, size: int) -> None:
        if size:
            self.source.line(f"at += {size}")

    def length(self, code: str, size: int) -> None:
        """Writes the reading of a length into `n`; `code` is "B" for the first byte of a compact one."""
        self.take(code, size, "n")
        self.flush()

    def raw(self, length: str, target: str) -> None:
        """Writes the reading of `length` bytes, an expression, into `target`."""
        self.flush()
        self.source.line(f"{target}, at = buf[at : at + {length}], at + {length}")

    def count(self) -> None:
        """Writes the reading of an unsigned varint into `n`."""
        self.length("B", 1)
        self.source.line(self.rest_of_varint)

    @contextmanager
    def present(self, slot: Slot) -> Iterator[None]:
        """A context for lines that read a struct; if the struct is nullable, they run only if it is not null."""
        if not slot.nullable:
            yield
            return
        self.length("b", 1)
        with self.source.block(f"if {'present' if slot.tag is None else 'present_tag'}(n, at):"):
            yield
            self.flush()
