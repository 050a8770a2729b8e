"""X²Localizer: where is the camera? Progressive cross-view video geo-localization, without GPS."""

from __future__ import annotations

__version__ = "0.1.0"
