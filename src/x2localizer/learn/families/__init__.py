"""Families of towers: every module in this folder is one, and is found by itself.

A module registers a subclass of :class:`~x2localizer.learn.towers.Tower` with :func:`register_family`. The setting
``model.family`` chooses it by name, ``model.options`` configures it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from x2localizer.config import ModelSettings, Settings, validate
from x2localizer.encoders.protocol import Capabilities
from x2localizer.errors import ConfigError
from x2localizer.learn.towers import Tower, TowerPlan
from x2localizer.registry import Registry

families: Registry[Tower] = Registry("model family", __name__)
AnyTower = TypeVar("AnyTower", bound=Tower)


def register_family(name: str) -> Callable[[type[AnyTower]], type[AnyTower]]:
    """A class decorator that makes a tower available as ``model.family = "name"``."""

    def register(tower: type[AnyTower]) -> type[AnyTower]:
        tower.name = name
        return families.register(tower)

    return register


def family_of(settings: ModelSettings) -> type[Tower]:
    """The class of both towers of a model."""
    return families.get(settings.family)


def options_of(settings: ModelSettings) -> Settings:
    """``model.options`` as the family's own settings."""
    family = family_of(settings)
    try:
        return validate(family.Options, settings.options)
    except ConfigError as problem:
        raise ConfigError(f"model.options of the family '{settings.family}': {problem.what}", problem.remedy) from None


def capabilities_of(settings: ModelSettings) -> Capabilities:
    """What the family of a model can do with its options."""
    return family_of(settings).capabilities_of(options_of(settings))


def build_tower(plan: TowerPlan) -> Tower:
    """A tower of the family that the settings name."""
    options = options_of(plan.settings)
    return family_of(plan.settings)(plan, options)
