"""What benchmarks are asked, and what they print."""

import argparse

from bench.report import machine


def options(name: str, about: str | None, *, rounds: int, seconds: float) -> argparse.ArgumentParser:
    """The options that benchmarks share. `name`, `about`: of a module; `rounds`, `seconds`: defaults."""
    parser = argparse.ArgumentParser(prog=f"python -m {name}", description=about)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument(
        "--seconds", type=float, default=seconds, help=f"how long each load runs in a round (default {seconds:g})"
    )
    return parser


def say(text: str) -> None:
    """Prints lines at once."""
    print(text, flush=True)


def say_machine() -> None:
    """Prints a line about the machine."""
    say("machine: " + machine())
