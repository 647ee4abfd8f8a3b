"""Reading a buffer forwards, as source: `buf`, and the offset `at`.

Fields of fixed size that follow each other are kept pending and read with one `unpack_from`, which steps over those
nobody asked for. The first byte of a compact length, or a whole classic one, rides along as the last of them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from proxy.wire.compile.source import Source


@dataclass(frozen=True, slots=True)
class _Detour:
    """Where it begins: behind so many codes, targets and bytes of what is pending."""

    when: str
    write: Callable[[], None]
    codes: int
    targets: int
    pending: int


class Cursor:
    """Writes reads of one buffer in order; those of fixed size wait in `pending` for `flush`."""

    # The line that completes a varint of several bytes whose first is in `n`.
    rest_of_varint = "if n > 127: n, at = read_uvarint(buf, at - 1)"
    # The line that steps over what is left of an integer in groups of 7 bits, of at most so many bytes in all.
    rest_of_integer = "if n > 127: at = skip({}, buf, at - 1)"

    def __init__(self, source: Source):
        self.source = source
        self._codes: list[str] = []
        self._targets: list[str] = []
        self._before_step: list[Callable[[], None]] = []
        self._detour: _Detour | None = None
        self.pending = 0  # bytes between `at` and what comes next

    def take(self, code: str, size: int, target: str) -> None:
        """The next `size` bytes are read into `target`."""
        self._codes.append(code)
        self._targets.append(target)
        self.pending += size

    def step(self, size: int) -> None:
        """The next `size` bytes are stepped over."""
        self._codes.append(f"{size}x")
        self.pending += size

    def before_step(self, write: Callable[[], None]) -> None:
        """`write` runs when what is pending has been read, and `at` still stands where it began."""
        self._before_step.append(write)

    def detour(self, code: str, size: int, count: str, when: str, write: Callable[[], None]) -> None:
        """Reads a count into the variable `count`; what follows it is read as if nothing stood between, as is usual.

        Where the condition `when` holds, something does: `write` writes the reading of it, from the byte behind the
        count on, and what follows is read again. The first reading never goes beyond the end because of that: there
        can only be more bytes than it takes.
        """
        if self._detour:
            self.flush()
        self.take(code, size, count)
        self._detour = _Detour(when, write, len(self._codes), len(self._targets), self.pending)

    def flush(self) -> None:
        """Writes what is pending; `at` then stands behind it."""
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

    def count(self) -> None:
        """An unsigned varint into `n`."""
        self.length("B", 1)
        self.source.line(self.rest_of_varint)
