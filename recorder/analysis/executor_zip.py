"""Zips the code for Spark's executors: packages of the wire format and of the recorder, and the tools that they need.

The data source plans on executors, without this project's driver, so it needs the module that reads times.

Executors import the code from the zip, so no module in it may need files on disk. They also need Python with pyarrow,
and with msgspec and numpy to make facts: their markers are read with what reads the log's entries.
The zip for `spark-submit` has both packages as a whole, because there the driver has no other code.
"""

from __future__ import annotations

from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

NAME = "kafka-wiretap"
# package -> its folders in the zip
SHIPPED = {
    "proxy": ("wire", "tools", "schema", "conversation"),
    "recorder": ("analysis", "capture", "facts", "hashing"),
}
# package -> single files that these folders need
FILES = {
    "proxy": ("files.py", "niceness.py", "terminal.py", "units.py"),
    "recorder": ("moments.py",),
}


def write_zip(target: Path) -> Path:
    """Writes the packages into `target`, and returns it. Raises OSError."""
    with ZipFile(target, "w", ZIP_DEFLATED) as archive:
        for package, rooms in SHIPPED.items():
            root = _folder(package)
            archive.write(root / "__init__.py", f"{package}/__init__.py")
            for name in FILES.get(package, ()):
                archive.write(root / name, f"{package}/{name}")
            for room in rooms:
                _add(archive, package, root, root / room)
    return target


def zip_for_executors(target: Path) -> Path:
    """Returns the zip for executors: `target`, newly written; or the zip from which this code itself was imported."""
    within = [parent for parent in Path(__file__).parents if parent.is_file()]
    return within[0] if within else write_zip(target)


def write_whole(target: Path) -> Path:
    """Writes both packages as a whole into `target`, with their version, and returns it. Raises OSError."""
    found = distribution(NAME)
    with ZipFile(target, "w", ZIP_DEFLATED) as archive:
        for package in SHIPPED:
            _add(archive, package, _folder(package), _folder(package))
        metadata = f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {found.version}\n"
        archive.writestr(f"{NAME.replace('-', '_')}-{found.version}.dist-info/METADATA", metadata)
    return target


def _add(archive: ZipFile, package: str, root: Path, room: Path) -> None:
    """Adds all files of a folder of the package at `root`."""
    for file in sorted(room.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            archive.write(file, f"{package}/{file.relative_to(root)}")


def _folder(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"package {package} is not installed as files")
    return Path(spec.submodule_search_locations[0])
