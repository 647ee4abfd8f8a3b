"""Runs a test over the rows of a table, as one test.

`pytest.mark.parametrize` makes a test of each row. That costs some milliseconds a row, whatever the test does:
collecting it, its three phases, and their reports from process to process. A table of hundreds of rows, whose check
takes a tenth of that, is one test here, and tells each row that is wrong. What gets a fixture of its own for each row
(`tmp_path`, `monkeypatch`), or runs in trio, stays parametrized.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

Test = Callable[..., None]
# the parameter of a test some of whose rows are `long`
ROWS = "rows"
# letters of a value in a row's name
LONGEST = 60


def each_row(
    names: str | Sequence[str], rows: Iterable[Any], ids: Callable[[Any], Any] | Iterable[object] | None = None
) -> Callable[[Test], Test]:
    """Decorates a test like `parametrize`, but calls it for one row after the other.

    Rows that are marked `long` (`sweeps.mostly_long`) are a test of their own, with that mark.
    """
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else [*names]
    ids = ids if ids is None or callable(ids) else [*ids]
    called = [_called(arguments, row, at, ids) for at, row in enumerate(rows)]
    usual, long = ([row for row in called if row.is_long is wanted] for wanted in (False, True))
    assert called, f"no rows of {names}"

    def decorated(test: Test) -> Test:
        given = inspect.signature(test)
        others = [one for name, one in given.parameters.items() if name not in arguments]
        assert len(others) + len(arguments) == len(given.parameters), f"{names} are not all parameters of the test"
        if not long:
            return _named(test, others, lambda *told, **more: _run(test, usual, *told, **more))
        own = inspect.Parameter(ROWS, inspect.Parameter.KEYWORD_ONLY)
        found = _named(test, [*others, own], lambda *told, rows, **more: _run(test, rows, *told, **more))
        groups = [pytest.param(usual, id="usual")] if usual else []
        return pytest.mark.parametrize(ROWS, [*groups, pytest.param(long, id="long", marks=pytest.mark.long)])(found)

    return decorated


class _Row:
    """A row: its values by parameter, its name."""

    def __init__(self, values: dict[str, Any], name: str, is_long: bool) -> None:
        self.values, self.name, self.is_long = values, name, is_long


def _called(arguments: list[str], row: Any, at: int, ids: Callable[[Any], Any] | Sequence[object] | None) -> _Row:
    marks: Sequence[pytest.Mark | pytest.MarkDecorator] = ()
    own_id = None
    if hasattr(row, "marks"):
        row, marks, own_id = (row.values[0] if len(arguments) == 1 else row.values), row.marks, row.id
    assert all(mark.name == "long" for mark in marks), marks
    values = dict(zip(arguments, [row] if len(arguments) == 1 else row, strict=True))
    name = own_id or _name(values, at, ids)
    return _Row(values, name, bool(marks))


def _name(values: dict[str, Any], at: int, ids: Callable[[Any], Any] | Sequence[object] | None) -> str:
    if ids is not None and not callable(ids):
        return str(ids[at])
    said = [ids(value) if ids else None for value in values.values()]
    return ", ".join(
        f"{name}={value!r:.{LONGEST}}" if word is None else str(word)
        for (name, value), word in zip(values.items(), said, strict=True)
    )


def _named(test: Test, parameters: list[inspect.Parameter], run: Test) -> Test:
    """`run` with the test's name and marks, and with these parameters for pytest."""
    functools.update_wrapper(run, test)
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def _run(test: Test, rows: list[_Row], *told: Any, **more: Any) -> None:
    """Calls the test for all rows, and raises what the wrong ones raised, each with its row's name."""
    wrong = list[Exception]()
    for row in rows:
        try:
            test(*told, **row.values, **more)
        except Exception as error:
            error.add_note(f"in the row {row.name}")
            wrong.append(error)
        except BaseException as error:
            error.add_note(f"in the row {row.name}")
            raise
    if len(wrong) == 1:
        raise wrong[0]
    if wrong:
        raise ExceptionGroup(f"{len(wrong)} of {len(rows)} rows are wrong", wrong)
