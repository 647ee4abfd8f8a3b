"""Every example of docs/wire.md says what it prints."""

import doctest
import re
from collections.abc import Iterator
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "wire.md"


def test_the_examples_print_what_the_page_says() -> None:
    shown = "\n".join(_examples(PAGE.read_text()))
    test = doctest.DocTestParser().get_doctest(shown, {}, PAGE.name, str(PAGE), 0)
    told: list[str] = []
    results = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=told.append)
    assert results.attempted > 25
    assert not results.failed, "".join(told)


def _examples(text: str) -> Iterator[str]:
    """The page's lines with nothing but its examples in them, so that their numbers are the page's."""
    inside = False
    for line in text.splitlines():
        if line.startswith("```"):
            inside = line == "```python"
        yield line if inside and not line.startswith("```") else ""


def test_the_commands_of_the_page_are_commands() -> None:
    from proxy.tools.commands import COMMANDS

    called = set(re.findall(r"kafka-wiretap wire (\w+)", PAGE.read_text()))
    assert called == set(COMMANDS["wire"].commands)  # type: ignore[attr-defined]
