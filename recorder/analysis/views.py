"""SQL over a capture's tables: each table that a query names becomes a temporary view.

Only queries are answered. The engine's parser says what a statement is before anything runs: a statement that would
create, change, drop or set something is refused, and so is a list of statements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import click
from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody imports it

from recorder.analysis.bodies import Captured
from recorder.analysis.embedded import is_embedded
from recorder.analysis.sources import SOURCES, load

_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical"
# Plans that do something, as classes of Spark: commands, and statements that become commands.
_DOING = (f"{_LOGICAL}.Command", f"{_LOGICAL}.ParsedStatement")
# Plans that do something and are of neither class; and commands that only tell something.
_ALSO_DOING = re.compile("InsertInto|ExecuteImmediate")
_EXPLAIN = "ExplainCommand"
_TELLING = frozenset({_EXPLAIN, "DescribeRelation", "DescribeColumn", "DescribeQueryCommand"})

_TOKEN = re.compile(
    r"""--[^\n]* | /\*.*?\*/ | r'[^']*' | r"[^"]*" | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*"
    | `((?:[^`]|``)+)` | (\w+) | (\S)""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_NESTED_COMMENT = re.compile(r"/\*(?:(?!\*/).)*/\*", re.DOTALL)
# the words with which queries begin
_QUERY = ("select", "with", "from", "table", "explain", "describe", "desc", "(")
_NAME = re.compile(r"[A-Za-z_]\w*")
# words behind which a table's name stands, and words that may stand in its place
_BEFORE_TABLE = ("from", "join")
_BEFORE_QUERY = (*_BEFORE_TABLE, "as", "in", "exists")
_NO_TABLE = ("lateral", "values", "select", "table", "stream", "identifier", "only", "unnest", "from", "with")


# a string, a quoted name or a comment whose end is not there yet
_OPEN = ("'", '"', "`", "/*")
# words that no query begins with
_COMMAND = re.compile(
    "add|alter|analyze|begin|cache|call|clear|create|declare|delete|drop|execute|grant|insert|list|load|merge|msck|"
    "refresh|repair|replace|reset|revoke|rollback|set|show|truncate|uncache|unset|update|use"
)
ONLY_QUERIES = (
    "only queries are answered, and nothing is changed: right would be SELECT, WITH, VALUES or DESCRIBE; "
    "`kafka-wiretap sql FOLDER tables` lists the tables"
)


def answer(found: Captured, query: str) -> DataFrame:
    """Returns the rows of a query. Errors: UsageError for another statement; AnalysisException, ParseException."""
    statement = None if is_embedded() else _kind_of_query(found.spark, query)
    words = {word.lower() for word in re.findall(r"\w+", query)}
    for name in SOURCES:
        if name in words:
            load(found, name).createOrReplaceTempView(name)
    if is_embedded():
        _check_query(found.spark, query)
    rows = found.spark.sql(query)
    # a plan is one text, of which people read the lines
    return rows.select(F.explode(F.split("plan", "\n")).alias("plan")) if statement == _EXPLAIN else rows


def _kind_of_query(spark: SparkSession, query: str) -> str:
    """The name of Spark's class for a query. Errors: UsageError for a statement that is no query; ParseException."""
    session: Any = getattr(spark, "_jsparkSession")  # noqa: B009 - pyspark has no public parser
    jvm: Any = getattr(spark, "_jvm")  # noqa: B009
    plan = session.sessionState().sqlParser().parsePlan(query)
    doing = [jvm.java.lang.Class.forName(name) for name in _DOING]
    kind = str(plan.getClass().getSimpleName())
    if kind in _TELLING:
        return kind
    for node in _nodes(plan):
        if any(each.isInstance(node) for each in doing) or _ALSO_DOING.search(node.getClass().getSimpleName()):
            raise click.UsageError(ONLY_QUERIES)
    return kind


def _check_query(spark: SparkSession, query: str) -> None:
    """Lets the embedded engine parse a query where only queries stand. Errors: UsageError; AnalysisException."""
    try:
        spark.sql(f"select 1 where exists (\n{query.rstrip().rstrip(';')}\n)").schema  # noqa: B018 - the engine looks at the query for it
    except IllegalArgumentException as error:
        why = "the embedded engine does not read this as a query, and --engine spark may know more"
        raise click.UsageError(f"{why}; {ONLY_QUERIES}") from error


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    children = plan.children()
    for at in range(children.size()):
        yield from _nodes(children.apply(at))


def is_command(query: str) -> bool:
    """True for a statement that its first word shows to be no query. It needs no Spark, whose parser knows the rest."""
    return _COMMAND.fullmatch(next((word.lower() for word, _ in _tokens(query)), "")) is not None


def is_for_spark(query: str) -> bool:
    """True for a query that only Spark answers: one about a plan, or about a table's columns."""
    return next((word.lower() for word, _ in _tokens(query)), "") in ("explain", "describe", "desc")


def unknown_table(query: str) -> str | None:
    """Returns a name in a query that is surely no table; None if there is none, or it is not sure.

    It needs no Spark. Sure is only a plain name directly behind FROM or JOIN that nothing in the query may define.
    """
    tokens = [*_tokens(query)]
    words = [word.lower() for word, _ in tokens]
    if not words or words[0] not in _QUERY or _NESTED_COMMENT.search(query):
        return None
    defined = _defined(words)
    # for each open parenthesis: True if FROM in it stands before a table, not in a call such as EXTRACT(YEAR FROM at)
    levels = [True]
    for at, word in enumerate(words):
        if word == "(":
            levels.append(
                not (at and tokens[at - 1][1] and words[at - 1] not in (*_BEFORE_TABLE, "as", "in", "exists"))
            )
        elif word == ")":
            levels = levels[:-1] or [True]
        elif word == "select":
            levels[-1] = True
        elif word in _BEFORE_TABLE and levels[-1] and words[max(at - 1, 0)] not in ("distinct", "."):
            name, behind = [*words[at + 1 : at + 3], "", ""][:2]
            is_name = at + 1 < len(words) and tokens[at + 1][1] and _NAME.fullmatch(name) and name not in _NO_TABLE
            if is_name and behind not in ("(", ".", ":") and name not in defined and name not in SOURCES:
                return tokens[at + 1][0]
    return None


def split(text: str) -> tuple[list[str], str]:
    """Returns the statements in a text that end with a semicolon, without it, and the rest."""
    found, begun = list[str](), 0
    for token in _TOKEN.finditer(text):
        if token[3] and text.startswith(_OPEN, token.start()):
            break
        if token[3] == ";":
            found.append(text[begun : token.start()].strip())
            begun = token.end()
    return [statement for statement in found if statement], text[begun:].strip()


def _tokens(query: str) -> Iterator[tuple[str, bool]]:
    """Yields names and signs; a name in backquotes without them. True for names. Strings become a sign."""
    for found in _TOKEN.finditer(query):
        if name := found[1] or found[2]:
            yield name, True
        elif not found[0].startswith(("--", "/*")):
            yield found[0] if found[3] else "'", False


def _defined(words: list[str]) -> set[str]:
    """Returns the names that WITH may define in a query: more than it does."""
    if "with" not in words:
        return set()
    return {word for before, word in pairwise(words) if before in ("with", "recursive", ",")}
