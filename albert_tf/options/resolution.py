"""The values of options that no flag gives: who sets each of them, and why.

A run adds its sources in the order of their precedence. Each source sets the options that are still open:
those that are not given, that no earlier source has set, and whose alternative, such as epochs for steps,
has no value either. Once all is known, the run makes its options of it.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# Who sets a value: a flag; the run's folder; the recipe; the model that the run starts from; the data; or
# none of them.
Source = Literal["given", "folder", "recipe", "model", "rows", "default"]

# Key of the run options: for each option without a flag, who set it when the run began.
SOURCES = "sources"

_SAYS: Mapping[Source, str] = {
    "folder": "the folder",
    "recipe": "the recipe",
    "model": "the model",
    "rows": "the choice for these data",
    "default": "the default",
}

_Options = TypeVar("_Options", bound="DataclassInstance")
_Value = TypeVar("_Value")


def resolved(value: _Value | None) -> _Value:
    """Returns the value of an option that may be left out, where something has set it."""
    assert value is not None, "the option is still open"
    return value


class _Found(NamedTuple):
    value: Any
    source: Source
    origin: Source  # of a value of the run's folder, who set it when the run began
    reason: str


class Resolution(Generic[_Options]):
    """What is known of the options of a run: what is given, and what sources have added.

    Args:
        given: a dataclass of options as its user gave them, None for what is left out. `ALTERNATIVES` of
            its class are pairs of options of which at most one has a value.
    """

    def __init__(self, given: _Options):
        self.given = given
        self._alternatives: dict[str, str] = {}
        for first, second in getattr(given, "ALTERNATIVES", ()):
            self._alternatives |= {first: second, second: first}
        self._found: dict[str, _Found] = {}
        self._replaced: dict[str, Any] = {}
        self._made: _Options | None = None

    def __getitem__(self, name: str) -> Any:
        """Returns the value of an option, as far as it is known."""
        if name in self._replaced:
            return self._replaced[name]
        return self._found[name].value if name in self._found else getattr(self.given, name)

    def options(self) -> _Options:
        """Returns the options with all values that are known, which are checked."""
        if self._made is None:
            found = {name: found.value for name, found in self._found.items()}
            self._made = dataclasses.replace(self.given, **found | self._replaced)
        return self._made

    def add(
        self,
        source: Source,
        values: Mapping[str, Any],
        reasons: Mapping[str, str] = MappingProxyType({}),
        origins: Mapping[str, Source] = MappingProxyType({}),
    ) -> None:
        """Sets the options that are still open; None sets nothing.

        `reasons` are texts for messages. `origins` are `noted` by the run whose folder is the source.
        """
        self._made = None
        for name, value in values.items():
            if value is not None and self.is_open(name):
                origin = origins.get(name, "given") if source == "folder" else source
                self._found[name] = _Found(value, source, origin, reason=reasons.get(name, ""))

    def replace(self, name: str, value: Any) -> None:
        """Replaces the value of an option; who set it stays."""
        self._made = None
        self._replaced[name] = value

    def is_open(self, name: str) -> bool:
        """Returns whether neither an option nor its alternative has a value."""
        return all(self[each] is None for each in {name, self._alternatives.get(name, name)})

    def with_alternatives(self, names: Iterable[str]) -> list[str]:
        """Returns names of options and of their alternatives."""
        pairs = ((name, self._alternatives.get(name, name)) for name in names)
        return list(dict.fromkeys(name for pair in pairs for name in pair))

    def source(self, name: str) -> Source:
        """Returns who set an option."""
        return self._found[name].source if name in self._found else "given"

    def is_chosen(self, name: str) -> bool:
        """Returns whether the program set an option, now or when the run began."""
        return name in self._found and self._found[name].origin in ("model", "rows", "default")

    def says(self, name: str) -> str:
        """Returns who set an option, for messages: its flag, or another source."""
        return _SAYS.get(self.source(name), f"--{name}")

    def describe(
        self, names: Iterable[str], notes: Mapping[str, str] = MappingProxyType({})
    ) -> str:
        """Returns options that have a value as flags, with notes or the reasons of their values."""
        parts = []
        for name in names:
            value = self[name]
            if value is None:
                continue
            flag = f"--{name}={value:g}" if isinstance(value, float) else f"--{name}={value}"
            if isinstance(value, bool):
                flag = f"--{name}" if value else f"--no{name}"
            reason = self._found[name].reason if name in self._found else ""
            note = notes.get(name, reason)
            parts.append(f"{flag} ({note})" if note else flag)
        return ", ".join(parts)

    def noted(self) -> dict[str, dict[str, Source]]:
        """Returns who set the options that no flag gave, as the run options note it."""
        # Sorted, as a run that resumes finds them in another order.
        origins = {name: found.origin for name, found in sorted(self._found.items())}
        return {SOURCES: {name: each for name, each in origins.items() if each != "given"}}
