"""Tests of the extras: what is told of missing packages, and that pyproject.toml declares all that is imported."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from recorder import extras

PROJECT = Path(__file__).parents[2]
DECLARED = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
DISTRIBUTIONS = {
    module: {re.sub(r"[-_.]+", "-", name).lower() for name in names}
    for module, names in packages_distributions().items()
}
# imported if installed, and done without if not
INSTEAD_OF_OTHERS = {"google-crc32c"}


def distributions(wanted: list[str]) -> set[str]:
    """The names of these requirements, with those of the project's own extras among them."""
    names = {re.split(r"[<>=\[;~! ]", one)[0] for one in wanted}
    own = [extra for one in wanted for extra in re.findall(r"kafka-wiretap\[(.*)\]", one)]
    inner = (distributions(DECLARED["optional-dependencies"][extra]) for each in own for extra in each.split(","))
    return (names - {"kafka-wiretap"}).union(*inner)


def imported() -> Iterator[tuple[str, str]]:
    """Yields each top-level module that our code imports, and the file."""
    for path in (*PROJECT.glob("proxy/**/*.py"), *PROJECT.glob("recorder/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            else:
                continue
            yield from ((name.partition(".")[0], str(path.relative_to(PROJECT))) for name in names)


@pytest.mark.real
def test_every_package_that_is_imported_is_declared() -> None:
    """What another package brings today may be gone with that one's next version."""
    of_users = {name: wanted for name, wanted in DECLARED["optional-dependencies"].items() if name != "dev"}
    declared = distributions([*DECLARED["dependencies"], *(one for wanted in of_users.values() for one in wanted)])
    known = {"proxy", "recorder", "_typeshed", *sys.stdlib_module_names}
    lacking = {
        f"{file} imports {name}"
        for name, file in imported()
        if name not in known and not DISTRIBUTIONS[name] & (declared | INSTEAD_OF_OTHERS)
    }
    assert lacking == set()


@pytest.mark.parametrize("extra", extras.MODULES)
def test_an_extra_brings_the_modules_that_its_commands_ask_for(extra: str) -> None:
    brought = distributions(DECLARED["optional-dependencies"][extra])
    packages = {name.partition(".")[0] for name in extras.MODULES[extra]}
    assert {name: DISTRIBUTIONS[name] for name in packages if not DISTRIBUTIONS[name] & brought} == {}


def test_the_line_names_every_missing_package_and_every_extra_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name in ("pandas", "altair") else object())
    with pytest.raises(extras.MissingPackages) as failed:
        extras.check("analysis", "report")
    assert failed.value.message == f"not installed: pandas, altair; {extras.pip_install('analysis', 'report')}"


def test_an_installed_extra_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "altair" else object())
    with pytest.raises(extras.MissingPackages, match=r"^not installed: altair; .*'\.\[report\]'$"):
        extras.check("analysis", "report")
    extras.check("analysis")


def test_packages_are_installed_for_the_running_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system's own pip may refuse (externally-managed-environment), or install for another Python."""
    monkeypatch.setattr("sys.executable", "/home/me/a venv/bin/python")
    line = extras.pip_install("analysis", "report")
    assert line == "in the project's folder, '/home/me/a venv/bin/python' -m pip install '.[analysis,report]'"
