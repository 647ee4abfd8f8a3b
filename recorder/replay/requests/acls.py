"""Access rules under `--prefix`: the target's names in rules, and in filters over rules.

A rule for all topics (`*`) becomes one for all topics with the prefix, so that a replay opens or closes nothing but its
own part of the target. Below version 1 rules have no pattern type, so that such a rule is withheld for its lost field.
"""

from __future__ import annotations

from collections.abc import Callable

from recorder.replay.plan import Values

# org.apache.kafka.common.resource.ResourceType
TOPIC, GROUP, TRANSACTIONAL_ID = 2, 3, 5
PREFIXED_TYPES = frozenset({TOPIC, GROUP, TRANSACTIONAL_ID})
# org.apache.kafka.common.resource.PatternType
ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
ALL = "*"


def is_prefixed(resource_type: int, pattern: int | None) -> bool:
    """True if a filter with a name matches rules under the prefix only. `pattern` None: literal, in version 0.

    A filter of pattern type MATCH also matches rules for `*` and for shorter prefixes.
    """
    return resource_type in PREFIXED_TYPES and pattern in (None, ANY, LITERAL, PREFIXED)


def prefix_rule(
    rule: Values, type_field: str, name_field: str, pattern_field: str, target: Callable[[str], str]
) -> None:
    """Changes the name in a rule or filter. `target`: the target's name for a recorded one."""
    name = rule[name_field]
    if name is None or rule[type_field] not in PREFIXED_TYPES:
        return
    if name == ALL and rule.get(pattern_field) != MATCH:
        rule[name_field], rule[pattern_field] = target(""), PREFIXED
    else:
        rule[name_field] = target(name)
