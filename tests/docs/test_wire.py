"""Tests that every example in docs/wire.md prints what it says, and that the README's example runs."""

import doctest
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from proxy import wire
from proxy.wire import embedded, kafka07, records, sasl, sizes
from tests.tables import each_row

ROOT = Path(__file__).parents[2]
PAGE, README = ROOT / "docs" / "wire.md", ROOT / "README.md"


def test_the_examples_print_what_the_page_says() -> None:
    shown = "\n".join(_examples(PAGE.read_text()))
    test = doctest.DocTestParser().get_doctest(shown, {}, PAGE.name, str(PAGE), 0)
    told: list[str] = []
    results = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=told.append)
    assert results.attempted > 25
    assert not results.failed, "".join(told)


def _examples(text: str) -> Iterator[str]:
    """The page's examples, with its other lines blanked, so that line numbers are the page's."""
    inside = False
    for line in text.splitlines():
        if line.startswith("```"):
            inside = line == "```python"
        yield line if inside and not line.startswith("```") else ""


def test_the_example_of_the_readme_runs() -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    found: dict[str, Any] = {}
    exec(example, found)
    assert found["values"]["topics"] is None


def test_the_commands_of_the_page_are_commands() -> None:
    from proxy.tools.commands import COMMANDS

    called = set(re.findall(r"kafka-wiretap wire (\w+)", PAGE.read_text() + README.read_text()))
    assert called == set(COMMANDS["wire"].commands)  # type: ignore[attr-defined]


@each_row("room", [wire, records, embedded, kafka07, kafka07.messages, kafka07.zookeeper, sasl, sizes])
def test_every_public_class_and_function_has_a_docstring(room: ModuleType) -> None:
    for name, found in _public(room):
        if inspect.isclass(found) or inspect.isfunction(found):
            assert _told(name, found.__doc__), name
        for member, value in vars(found).items() if inspect.isclass(found) else ():
            if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
                assert value.__doc__, f"{name}.{member}"


def _public(room: ModuleType) -> list[tuple[str, Any]]:
    if hasattr(room, "__all__"):
        return [(name, vars(room)[name]) for name in room.__all__]
    own = [(name, found) for name, found in vars(room).items() if getattr(found, "__module__", "") == room.__name__]
    return [(name, found) for name, found in own if not name.startswith("_")]


def _told(name: str, text: str | None) -> bool:
    """True for a docstring that neither `dataclass` nor `NamedTuple` has generated."""
    return bool(text) and not str(text).startswith(f"{name}(")
