"""A registry: named extensions of one kind, found by name with a helpful error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from segaudit.errors import AuditError, Finding, did_you_mean


class Named(Protocol):
    """Anything with a name."""

    @property
    def name(self) -> str:
        """The name under which the item is registered."""


T = TypeVar("T", bound=Named)


class Registry(Generic[T]):
    """Items of one kind by name, in the order in which they were registered.

    Examples
    --------
    >>> from segaudit.metrics import METRICS
    >>> METRICS["dice"].better
    'higher'
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._items: dict[str, T] = {}

    def register(self, item: T) -> T:
        """Add an item; a name is given once."""
        if item.name in self._items:
            raise ValueError(f"{self.kind} '{item.name}' is registered twice")
        self._items[item.name] = item
        return item

    def __getitem__(self, name: str) -> T:
        if name not in self._items:
            raise AuditError(
                Finding(
                    f"UNKNOWN_{self.kind.upper().replace(' ', '_')}",
                    f"no {self.kind} is named '{name}'.",
                    fix=did_you_mean(name, self._items),
                )
            )
        return self._items[name]

    def __contains__(self, name: object) -> bool:
        return name in self._items

    def __iter__(self) -> Iterator[T]:
        return iter(self._items.values())

    def __len__(self) -> int:
        return len(self._items)

    def names(self) -> list[str]:
        """Return the registered names in order."""
        return list(self._items)
