import ast
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from proxy.wire import apis, keys
from tests.tables import each_row

ROOT = Path(__file__).parents[3]


def own_name(name: str) -> str:
    """Returns SHARE_FETCH for "ShareFetch"."""
    return "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in name).lstrip("_")


NAMES = {own_name(name): key for key in apis.api_keys() if (name := apis.api_name(key))}

# most modules define none of them in a line that is not indented, so they need no parsing
BOUND = re.compile(rf"^(?:\S.*)?\b(?:{'|'.join(NAMES)})\b[^=\n]*=(?!=)", re.MULTILINE)


def declared(source: str) -> list[str]:
    """Returns the names of apis that a module defines. Names in a class belong to another protocol: 0.7's enum."""
    if not BOUND.search(source):
        return []
    bound = chain.from_iterable(map(bindings, ast.parse(source).body))
    return [name for name, value in bound if name in NAMES and type(value) is int]


def bindings(statement: ast.stmt) -> Iterator[tuple[str, object]]:
    match statement:
        case ast.Assign(targets, value):
            for target in targets:
                yield from pairs(target, value)
        case ast.AnnAssign(target, _, ast.expr() as value):
            yield from pairs(target, value)


def pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, object]]:
    match target, value:
        case ast.Name(name), ast.Constant(number):
            yield name, number
        case ((ast.Tuple(names) | ast.List(names)), (ast.Tuple(values) | ast.List(values))):
            for one, other in zip(names, values, strict=False):
                yield from pairs(one, other)


def test_every_key_is_the_catalogs() -> None:
    own = {name: key for name, key in vars(keys).items() if name.isupper()}
    assert own
    assert own.items() <= NAMES.items()


@each_row("package", ["proxy", "recorder", "tests", "fuzz", "bench"])
def test_no_other_module_gives_an_api_its_key(package: str) -> None:
    modules = {*(ROOT / package).rglob("*.py")} - {Path(keys.__file__)}
    assert modules
    found = {str(module.relative_to(ROOT)): declared(module.read_text()) for module in modules}
    assert {module: names for module, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "source",
    ["PRODUCE = 0", "API_VERSIONS: int = 18", "METADATA, VERSION = 3, 1", "FETCH = LONG = 1"],
    ids=["plain", "with a type", "among others", "with another name"],
)
def test_a_second_declaration_is_found_however_it_is_written(source: str) -> None:
    assert len(declared(source)) == 1


def test_an_import_and_another_protocols_enum_are_no_declarations() -> None:
    assert declared("from proxy.wire.keys import FETCH\nLONG = (FETCH,)\nclass Request:\n    FETCH = 1\n") == []
