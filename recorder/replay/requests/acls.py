"""Access rules under a prefix: what their resources, and filters over them, are called on the target.

A rule for all topics (`*`) becomes one for all topics with the prefix, so that no replay opens or closes more than its
own part of the target. Before version 1 rules have no pattern: that one is withheld there, by its lost field.
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
    """True if a filter with a name meets nothing but rules under the prefix. `pattern` None: literal, in version 0.

    One of pattern MATCH meets rules for `*` too, and those of shorter prefixes.
    """
    return resource_type in PREFIXED_TYPES and pattern in (None, ANY, LITERAL, PREFIXED)


def prefix_rule(
    rule: Values, type_field: str, name_field: str, pattern_field: str, target: Callable[[str], str]
) -> None:
    """Changes the name in a rule or a filter. `target`: the target's name for a recorded one."""
    name = rule[name_field]
    if name is None or rule[type_field] not in PREFIXED_TYPES:
        return
    if name == ALL and rule.get(pattern_field) != MATCH:
        rule[name_field], rule[pattern_field] = target(""), PREFIXED
    else:
        rule[name_field] = target(name)
