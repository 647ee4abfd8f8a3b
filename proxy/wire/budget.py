"""How much may be made of bytes that somebody else wrote.

A frame of a few bytes may say that it unfolds to gigabytes, holds millions of empty values, or takes a thousand lines
to print. Limits of single things don't help: a command meets many. So whoever reads on somebody's behalf has one
`Budget` for all that is made: a command for what it shows, a task for what it holds at a time, a call of this library
where nobody hands one in. It has three allowances of so many bytes each, so that what was unfolded can still be
decoded and printed when nothing more can be unfolded:

    unfolded  what compressed data unfolds to
    values    what decoded values take in memory: an estimate (`compile/costs.py` has the prices)
    text      what is printed of them

What would take more raises `OverBudget`, and so does everything that comes after it: an allowance that was exceeded
once has nothing left, so that a thousand bombs cost no more than one.
"""

from proxy.wire.errors import OverBudget, in_bytes

# Ten times what the values of the largest messages take that clusters really send: the metadata of 100,000 partitions.
DEFAULT_BUDGET = 1 << 30


class Allowance:
    """So many bytes of one kind. `making`: what is done when they are taken, as sentences say it."""

    __slots__ = ("is_used_up", "left", "making", "size")

    def __init__(self, making: str, size: int):
        self.making, self.size, self.left = making, size, size
        self.is_used_up = False

    def take(self, size: int) -> None:
        """Errors: OverBudget where less than that is left, now and ever after."""
        if not self.allows(size):
            raise OverBudget(f"{self.making} makes more than {in_bytes(self.size)}")

    def allows(self, size: int) -> bool:
        """Takes `size` bytes if so many are left; otherwise nothing is left from now on."""
        if size > self.left:
            self.exhaust()
        if self.is_used_up:
            return False
        self.left -= size
        return True

    def give_back(self, size: int) -> None:
        """Of what was taken, `size` bytes are not there any more."""
        self.left += size

    def exhaust(self) -> None:
        """More is wanted than is left: nothing is left from now on."""
        self.left, self.is_used_up = 0, True


class Budget:
    """What may be made of foreign bytes in all: `size` bytes of each kind."""

    __slots__ = ("size", "text", "unfolded", "values")

    def __init__(self, size: int = DEFAULT_BUDGET):
        self.size = size
        self.unfolded = Allowance("unfolding", size)
        self.values = Allowance("decoding", size)
        self.text = Allowance("printing", size)

    @property
    def used_up(self) -> list[str]:
        """What would have made more than there was; empty where all has been made."""
        return [one.making for one in (self.unfolded, self.values, self.text) if one.is_used_up]


class _Free(Allowance):
    """Takes nothing from anywhere: of what is bounded otherwise."""

    def allows(self, size: int) -> bool:
        return True


FREE = _Free("nothing", 0)


def of_a_batch(limit: int) -> Allowance:
    """What a batch that is read without a budget may unfold to."""
    return Allowance("unfolding", limit)
