"""The code that Spark's executors need, as one zip: the wire room and the recorder's rooms.

Executors import it from the zip, so nothing in it may insist on finding its files on disk. What they need besides is
Python with pyarrow.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

# package -> its folders that go along; "" is the package's own modules
SHIPPED = {"proxy": ("wire",), "recorder": ("analysis", "capture")}


def write_zip(target: Path) -> Path:
    """Write the packages into `target` and return it. Raises OSError if that can't be written."""
    with ZipFile(target, "w", ZIP_DEFLATED) as archive:
        for package, rooms in SHIPPED.items():
            root = _folder(package)
            archive.write(root / "__init__.py", f"{package}/__init__.py")
            for room in rooms:
                for file in sorted((root / room).rglob("*")):
                    if file.is_file() and "__pycache__" not in file.parts:
                        archive.write(file, f"{package}/{file.relative_to(root)}")
    return target


def _folder(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"package {package} is not installed as files")
    return Path(spec.submodule_search_locations[0])
