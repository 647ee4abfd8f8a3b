"""What goes to Spark's executors works there, where there is only the zip."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

from proxy.wire import catalog
from recorder.analysis.ship import write_zip

PROGRAM = """
import json, sys
sys.path.insert(0, sys.argv[1])
from proxy.wire import error_paths
from recorder.analysis import columns
from recorder.capture import outcome
for module in (error_paths, columns, outcome):
    assert module.__file__.startswith(sys.argv[1]), module.__file__
print(json.dumps(error_paths.error_codes(bytes.fromhex(sys.argv[2]), 1, 12)))
"""


def test_a_process_that_has_only_the_zip_reads_error_codes(tmp_path: Path) -> None:
    zipped = write_zip(tmp_path / "code.zip")
    frame = catalog.encode_response(1, 12, 1, {"error_code": 6, "responses": []})
    # -I: neither this folder nor PYTHONPATH is searched
    command = [sys.executable, "-I", "-c", PROGRAM, str(zipped), frame.hex()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert json.loads(done.stdout) == [6]


def test_the_zip_holds_the_messages_and_no_compiled_files(tmp_path: Path) -> None:
    names = ZipFile(write_zip(tmp_path / "code.zip")).namelist()
    assert "proxy/wire/messages/01_fetch.kafka" in names
    assert not [name for name in names if name.endswith(".pyc")]
    assert not [name for name in names if name.startswith("proxy/net")]
