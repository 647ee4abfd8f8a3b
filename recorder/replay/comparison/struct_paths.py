"""The place of a struct in an answer: its path for the text of a difference, and the names of the structs around it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from proxy.wire.places import Level
from recorder.replay.comparison.compared_fields import ComparedField
from recorder.replay.comparison.elements import element_name
from recorder.replay.comparison.shown import shown_name
from recorder.replay.comparison.terms import NOWHERE, EnclosingNames
from recorder.replay.plan import Values
from recorder.replay.requests.apis import Trait, those

# resource types BROKER and BROKER_LOGGER; sources of settings that are a broker's, or Kafka's defaults
_BROKERS_RESOURCES = (4, 8)
_BROKERS_SOURCES = (2, 3, 4, 5, 6)
WITH_BROKERS_SETTINGS = those(Trait.TELLS_DEFAULTS)


@dataclass(frozen=True, slots=True)
class StructPath:
    """The place of a struct: the field `line` of the struct `above`; in an array, the `number`-th matched element.

    `is_brokers`: it is in a broker's own settings, which are compared in structure only.
    """

    above: StructPath | None = None
    line: ComparedField | None = None
    number: int = 0
    element: Values | None = None
    around: EnclosingNames = NOWHERE
    is_brokers: bool = False

    def inside(self, line: ComparedField) -> StructPath:
        """The place of a struct that isn't in an array."""
        return replace(self, above=self, line=line, element=None)

    def at(self, line: ComparedField, number: int, element: Values, api_key: int) -> StructPath:
        """The place of an element of an array."""
        is_brokers = self.is_brokers or (api_key in WITH_BROKERS_SETTINGS and _is_brokers(element))
        return StructPath(self, line, number, element, enclosing_names(self.around, line, element), is_brokers)

    def text(self, name: str = "") -> str:
        """The path of the struct, or of a field in it, with the names of elements."""
        if self.above is None or self.line is None:
            return name
        return self.above.text(f"{self.line.name}{self._label}{name and '.'}{name}")

    @property
    def _label(self) -> str:
        if self.element is None or self.line is None or self.line.named is None:
            return ""
        name = element_name(self.line.named, self.element)
        return f"[{self.number if name is None else shown_name(name)}]"


def enclosing_names(above: EnclosingNames, line: ComparedField, element: Values) -> EnclosingNames:
    """The names around the values of an element."""
    name = element_name(line.named or (), element)
    if line.level is Level.TOPIC and name:
        return EnclosingNames(above.group, name[0], above.partition, above.resource_type)
    if line.level is Level.PARTITION and name:
        return EnclosingNames(above.group, above.topic, name[0], above.resource_type)
    group, resource = element.get("group_id"), element.get("resource_type")
    resource = above.resource_type if resource is None else resource
    return EnclosingNames(group or above.group, above.topic, above.partition, resource)


def _is_brokers(element: Values) -> bool:
    return (
        element.get("resource_type") in _BROKERS_RESOURCES
        or element.get("config_source") in _BROKERS_SOURCES
        or bool(element.get("is_default"))
    )
