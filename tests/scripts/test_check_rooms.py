"""Tests of the check of rooms: each has a place in the contract of layers, and no files import in a circle."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "check-rooms"

SETTINGS = """
[tool.importlinter]
root_packages = ["inn", "yard"]
[[tool.importlinter.contracts]]
type = "layers"
layers = ["inn.hall | (yard.stable)", "inn.cellar"]
[[tool.importlinter.contracts]]
type = "forbidden"
source_modules = ["inn.attic"]
"""
FILES = {
    **dict.fromkeys(("inn/__init__.py", "inn/cellar/__init__.py", "inn/cellar/wine.py", "yard/__init__.py"), ""),
    "inn/hall.py": "import inn.cellar.wine",
}


def checked(folder: Path, **more: str) -> tuple[int, str]:
    """Checks two packages with these further files."""
    (folder / "pyproject.toml").write_text(SETTINGS)
    for name, text in (FILES | more).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    done = subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True)
    assert not done.stderr
    return done.returncode, done.stdout


def test_rooms_that_have_their_place_and_files_without_circles_pass(tmp_path: Path) -> None:
    assert checked(tmp_path, **{"yard/stable.py": "import inn.hall"}) == (0, "")


@pytest.mark.parametrize("room", ["inn/attic.py", "inn/attic/__init__.py", "yard/well.py"])
def test_a_room_that_no_layer_names_is_printed(tmp_path: Path, room: str) -> None:
    code, said = checked(tmp_path, **{room: ""})
    name = room.removesuffix("/__init__.py").removesuffix(".py").replace("/", ".")
    assert (code, said) == (1, f"{name} stands in no layer: give it a place in the contract of the rooms\n")


CIRCLES = {
    "two files": {"inn/cellar/wine.py": "import inn.cellar.beer", "inn/cellar/beer.py": "import inn.cellar.wine"},
    "both packages": {"inn/cellar/wine.py": "import yard.stable", "yard/stable.py": "import inn.cellar.wine"},
    "a package and what is in it": {
        "inn/cellar/__init__.py": "from inn.cellar.wine import RED",
        "inn/cellar/wine.py": "import inn.cellar",
    },
    "an import within a function": {
        "inn/cellar/wine.py": "def drink():\n    import inn.cellar.beer",
        "inn/cellar/beer.py": "import inn.cellar.wine",
    },
}


@pytest.mark.parametrize("files", CIRCLES.values(), ids=CIRCLES)
def test_files_in_a_circle_are_printed(tmp_path: Path, files: dict[str, str]) -> None:
    code, said = checked(tmp_path, **files)
    assert code == 1
    assert said.startswith("files in a circle: ")
    assert "inn.cellar.wine" in said
