"""The typed config tree: presets in TOML, dotted overrides, no unknown keys.

Order: the defaults in these modules, then a preset, then ``--set a.b=c``. The resolved tree is stored with everything
that is made from it.
"""

from __future__ import annotations

from x2localizer.config.base import Settings
from x2localizer.config.dataset import DatasetSettings, SplitSettings, TownSettings
from x2localizer.config.load import from_overrides, load_config, preset_names, validate
from x2localizer.config.localize import LocalizeSettings, MotionSettings, TrackSettings
from x2localizer.config.train import (
    STAGES,
    BackboneSettings,
    DecoderSettings,
    ModelSettings,
    ObjectiveSettings,
    StageSettings,
    TrainSettings,
)

RELEASED = "eye"
"""The bundle of this package that is used where none is named."""

__all__ = [
    "RELEASED",
    "STAGES",
    "BackboneSettings",
    "DatasetSettings",
    "DecoderSettings",
    "LocalizeSettings",
    "ModelSettings",
    "MotionSettings",
    "ObjectiveSettings",
    "Settings",
    "SplitSettings",
    "StageSettings",
    "TownSettings",
    "TrackSettings",
    "TrainSettings",
    "from_overrides",
    "load_config",
    "preset_names",
    "validate",
]
