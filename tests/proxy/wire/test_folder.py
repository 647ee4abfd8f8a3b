"""Tests of where the `.kafka` files come from."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from proxy.wire.folder import Folder
from recorder.analysis.executor_zip import write_zip

PROGRAM = """
import json, sys
sys.path.insert(0, sys.argv[1])
from proxy.wire.folder import Folder
found = {name: {file: Folder(name).text(file) for file in Folder(name).names()} for name in ("messages", "embedded")}
assert Folder("messages").path.startswith(sys.argv[1])
print(json.dumps(found))
"""


@pytest.mark.parametrize("name", ["messages", "embedded"])
def test_a_folder_lists_its_files_sorted_and_nothing_else(name: str) -> None:
    folder = Folder(name)
    assert folder.names() == sorted(path.name for path in Path(folder.path).glob("*.kafka"))
    assert folder.names()
    assert folder.text(folder.names()[0]) == Path(folder.path, folder.names()[0]).read_text("utf-8")


@pytest.mark.real
def test_the_message_files_are_found_in_a_zip(tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-c", PROGRAM, str(write_zip(tmp_path / "code.zip"))]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    expected = {
        name: {file: Folder(name).text(file) for file in Folder(name).names()} for name in ("messages", "embedded")
    }
    assert json.loads(ran.stdout) == expected
