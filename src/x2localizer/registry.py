"""Things with one shape, found by name: adding one is adding a file to its package.

A registry imports every module of its package when it is first asked, and each module registers what it defines::

    similarities: Registry[Similarity] = Registry("similarity", "x2localizer.similarity")

    @similarities.register
    class BestTile(Similarity):
        name = "s_best"
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import ClassVar, Generic, Protocol, TypeVar

from x2localizer.errors import ConfigError, nearest


class Named(Protocol):
    """Something with a name of its own."""

    name: ClassVar[str]


Thing = TypeVar("Thing", bound=Named)
Class = TypeVar("Class", bound=type)


class Registry(Generic[Thing]):
    """The classes of one kind, by name."""

    def __init__(self, kind: str, package: str) -> None:
        self._kind, self._package = kind, package
        self._classes: dict[str, type[Thing]] = {}

    def register(self, thing: Class) -> Class:
        """Add a class under its ``name``; a class decorator."""
        self._classes[thing.name] = thing  # type: ignore[attr-defined]
        return thing

    def names(self) -> list[str]:
        """All names, sorted."""
        self._import_modules()
        return sorted(self._classes)

    def get(self, name: str) -> type[Thing]:
        """The class with a name; an unknown name is an error that suggests the nearest one."""
        self._import_modules()
        if name not in self._classes:
            raise ConfigError(f"There is no {self._kind} '{name}'.", nearest(name, self._classes))
        return self._classes[name]

    def _import_modules(self) -> None:
        """Import the modules of the package that are not imported yet, also those on an extended ``__path__``."""
        for module in pkgutil.iter_modules(import_module(self._package).__path__):
            import_module(f"{self._package}.{module.name}")
