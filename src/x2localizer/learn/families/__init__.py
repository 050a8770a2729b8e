"""Families of towers: every module in this folder is one, and is found by itself.

A module registers a subclass of :class:`~x2localizer.learn.towers.Tower` with :func:`register_family`. The setting
``model.family`` chooses it by name, ``model.options`` configures it. Modules whose names start with an underscore are
not imported; a family may keep its parts there.
"""

from __future__ import annotations

import importlib
import logging
import pkgutil
from collections.abc import Callable
from typing import TypeVar

from x2localizer.config import ModelSettings, Settings, validate
from x2localizer.errors import ConfigError, nearest
from x2localizer.learn.towers import Tower, TowerPlan

logger = logging.getLogger(__name__)
AnyTower = TypeVar("AnyTower", bound=Tower)
_towers: dict[str, type[Tower]] = {}


def register_family(name: str) -> Callable[[type[AnyTower]], type[AnyTower]]:
    """A decorator that makes a tower available as ``model.family = "name"``."""

    def register(tower: type[AnyTower]) -> type[AnyTower]:
        other = _towers.get(name)
        if other is not None and other.__module__ != tower.__module__:
            raise ValueError(f"family '{name}' is registered by {other.__module__} and by {tower.__module__}")
        _towers[name] = tower
        return tower

    return register


def family_names() -> list[str]:
    """The names of all families."""
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        if module.name.rpartition(".")[2].startswith("_"):
            continue
        try:
            importlib.import_module(module.name)
        except ImportError as problem:  # a family may need packages that are not installed
            logger.warning("The model family in %s cannot be used: %s", module.name, problem)
    return sorted(_towers)


def family_of(settings: ModelSettings) -> type[Tower]:
    """The class of both towers."""
    names = family_names()
    if settings.family not in names:
        raise ConfigError(f"There is no model family '{settings.family}'.", nearest(settings.family, names))
    return _towers[settings.family]


def options_of(settings: ModelSettings) -> Settings:
    """``model.options`` as the family's own settings."""
    try:
        return validate(family_of(settings).Options, settings.options)
    except ConfigError as problem:
        raise ConfigError(f"model.options of the family '{settings.family}': {problem.what}", problem.remedy) from None


def build_tower(plan: TowerPlan) -> Tower:
    """A tower of the family that the settings name."""
    return family_of(plan.settings)(plan, options_of(plan.settings))
