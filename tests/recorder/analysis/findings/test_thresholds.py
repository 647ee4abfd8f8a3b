"""Tests of reading a file of thresholds; a wrong one is refused with a correction."""

from __future__ import annotations

from pathlib import Path

import pytest

from recorder.analysis.findings.thresholds import WrongThresholds, read

RULES = ("slow", "hot_partition", "errors")


def test_thresholds_are_read_by_rule(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text("slow = 5\nhot_partition = 4.5  # of 12 partitions\n")
    assert read(file, RULES) == {"slow": 5.0, "hot_partition": 4.5}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("hot_partitions = 4", "there is no rule hot_partitions; meant is perhaps hot_partition"),
        ("zzz = 4", "there is no rule zzz; rules are slow, hot_partition, errors"),
        ("slow = 'much'", "slow = much is no number above 0"),
        ("slow = true", "slow = True is no number above 0"),
        ("slow = 0", "slow = 0 is no number above 0"),
        ("slow = nan", "slow = nan is no number above 0"),
        ("slow = inf", "slow = inf is no number above 0"),
        ("[slow]\nthreshold = 4", "is no number above 0"),
        ("slow 4", "is no TOML"),
        ("x = " + "[" * 100_000, "is no TOML"),
    ],
    ids=["near", "far", "text", "boolean", "zero", "nan", "infinite", "table", "no-toml", "deep"],
)
def test_a_wrong_file_is_refused_in_one_line(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "own.toml"
    file.write_text(text)
    with pytest.raises(WrongThresholds) as error:
        read(file, RULES)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_file_or_one_without_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongThresholds, match=r"can't be read \(No such file"):
        read(tmp_path / "none.toml", RULES)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(WrongThresholds, match=r"is no TOML \('utf-8' codec can't decode"):
        read(tmp_path / "binary.toml", RULES)


def test_a_device_that_never_ends_is_refused() -> None:
    with pytest.raises(WrongThresholds, match=r"^/dev/zero is longer than 16 MiB$"):
        read(Path("/dev/zero"), RULES)
