"""Access rules under `--prefix`: the target's names in rules, and in filters over rules.

A rule for all topics (`*`) becomes one for all topics with the prefix, so that a replay opens or closes nothing but its
own part of the target. A rule for anything else, such as the cluster or a user, reaches beyond the prefix, and so does
a filter that may find such rules: a change of either is not sent. Below version 1 rules have no pattern type, so that a
rule for all topics is withheld for its lost field.
"""

from __future__ import annotations

from proxy.terminal import printable
from recorder.replay.names import BeyondPrefix, Names
from recorder.replay.plan import Values

# org.apache.kafka.common.resource.ResourceType
ANY_TYPE, TOPIC, GROUP, TRANSACTIONAL_ID = 1, 2, 3, 5
PREFIXED_TYPES = frozenset({TOPIC, GROUP, TRANSACTIONAL_ID})
# org.apache.kafka.common.resource.PatternType
ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
ALL = "*"
# the name of the only resource of type CLUSTER
_CLUSTER = "kafka-cluster"


def prefix_rule(
    rule: Values, type_field: str, name_field: str, pattern_field: str, names: Names, *, changes: bool
) -> None:
    """Changes the name in a rule or filter.

    Args:
        changes: the request makes or deletes rules.

    Errors:
        BeyondPrefix: the rule that is made, or one that the filter may find, is not of the replay's names alone.
    """
    kind, name = rule[type_field], rule[name_field]
    if changes and not _is_within(kind, name, rule.get(pattern_field, LITERAL), names):
        raise BeyondPrefix(f"a rule for {printable(name or 'any name')}")
    # only of the type of topics, groups or transactional ids is it surely one of those
    is_named = kind in PREFIXED_TYPES or (kind == ANY_TYPE and name != _CLUSTER)
    if name is None or not is_named:
        return
    if name == ALL and rule.get(pattern_field) != MATCH:
        rule[name_field], rule[pattern_field] = names.prefix, PREFIXED
    else:
        rule[name_field] = names.target_topic(name) if kind == TOPIC else names.target(name)


def _is_within(kind: int, name: str | None, pattern: int, names: Names) -> bool:
    """True if a rule is for names of the replay only, or a filter finds no other rules.

    A filter of pattern type MATCH finds rules for `*` and for shorter prefixes, too.
    """
    if name is None or kind not in PREFIXED_TYPES or pattern not in (ANY, LITERAL, PREFIXED):
        return False
    return kind != TOPIC or not names.is_kafkas(name)
