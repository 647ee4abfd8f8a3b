"""Reading a buffer forwards, as source: `buf`, and the offset `at`.

Fields of fixed size that follow each other are kept pending and read with one `unpack_from`, which steps over those
nobody asked for. The first byte of a compact length, or a whole classic one, rides along as the last of them.
"""

from collections.abc import Callable

from proxy.wire.compile.source import Source


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

    def flush(self) -> None:
        """Writes what is pending; `at` then stands behind it."""
        while self._codes and self._codes[-1].endswith("x"):
            self._codes.pop()
        if self._codes == ["B"]:
            self.source.line(f"{self._targets[0]} = buf[at]")
        elif self._targets:
            read = self.source.unpack("".join(self._codes))
            self.source.line(f"{', '.join(self._targets)}{',' * (len(self._targets) == 1)} = {read}(buf, at)")
        for write in self._before_step:
            write()
        if self.pending:
            self.source.line(f"at += {self.pending}")
        self._codes, self._targets, self._before_step, self.pending = [], [], [], 0

    def length(self, code: str, size: int) -> None:
        """Writes the reading of a length into `n`; `code` is "B" for the first byte of a compact one."""
        self.take(code, size, "n")
        self.flush()

    def count(self) -> None:
        """An unsigned varint into `n`."""
        self.length("B", 1)
        self.source.line(self.rest_of_varint)
