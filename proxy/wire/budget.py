"""Limits on the memory and the text that bytes from outside may be turned into.

A frame of a few bytes may say that it unfolds to gigabytes, holds millions of empty values, or takes a thousand lines
to print. A limit on each frame does not help, because a command reads many. So each command has one `Budget` for
everything that it shows, each Spark task one for what it holds at a time, and a call of this library a new one
unless the caller passes one. A budget has three allowances of equal size, so that unfolded data can still be
decoded and printed when nothing more can be unfolded:

    unfolded  what compressed data unfolds to
    values    what decoded values take in memory: an estimate (`compile/costs.py` has the prices)
    text      what is printed of them

Taking more than is left raises `OverBudget`, and so does every later attempt: an allowance that was exceeded
once has nothing left, so that a thousand bombs cost no more than one.
"""

from proxy.wire.errors import OverBudget, in_bytes

# Ten times the values of the largest messages that real clusters send: the metadata of 100,000 partitions.
DEFAULT_BUDGET = 1 << 30


# what takes from each allowance
_MAKING = {"unfolded": "unfolding", "values": "decoding", "text": "printing"}


class Allowance:
    """A number of bytes that may be taken. `making`: the activity that takes them, as errors name it."""

    __slots__ = ("is_used_up", "left", "making", "size")

    def __init__(self, making: str, size: int):
        self.making, self.size, self.left = making, size, size
        self.is_used_up = False

    def take(self, size: int) -> None:
        """Takes `size` bytes. Errors: OverBudget if fewer are left, and at every later call."""
        if not self.try_take(size):
            raise OverBudget(f"{self.making} makes more than {in_bytes(self.size)}")

    def try_take(self, size: int) -> bool:
        """Takes `size` bytes and returns True if they are left. Otherwise the allowance is used up for good."""
        if size > self.left:
            self.exhaust()
        if self.is_used_up:
            return False
        self.left -= size
        return True

    def give_back(self, size: int) -> None:
        """Returns `size` bytes to the allowance, because the memory was freed."""
        self.left += size

    def exhaust(self) -> None:
        """Uses up the allowance for good."""
        self.left, self.is_used_up = 0, True


class Budget:
    """The three allowances, of `size` bytes each. Each is made when it is first needed: most frames need one."""

    __slots__ = ("size", "text", "unfolded", "values")
    values: Allowance
    unfolded: Allowance
    text: Allowance

    def __init__(self, size: int = DEFAULT_BUDGET):
        self.size = size

    def __getattr__(self, name: str) -> Allowance:
        if name not in _MAKING:
            raise AttributeError(name)
        made = Allowance(_MAKING[name], self.size)
        setattr(self, name, made)
        return made

    @property
    def used_up(self) -> list[str]:
        """The activities whose allowance was exceeded."""
        return [one.making for one in (self.unfolded, self.values, self.text) if one.is_used_up]


class _Free(Allowance):
    """An allowance without a limit, for memory that is bounded otherwise."""

    def try_take(self, size: int) -> bool:
        return True


FREE = _Free("nothing", 0)


def of_a_batch(limit: int) -> Allowance:
    """The allowance of a batch that is read without a budget."""
    return Allowance("unfolding", limit)
