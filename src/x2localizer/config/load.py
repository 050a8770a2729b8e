"""Presets, overrides, and errors that name the nearest key."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import ValidationError

from x2localizer.config.base import Settings
from x2localizer.errors import ConfigError, nearest
from x2localizer.files import read_bounded

MOST_BYTES = 1 << 20
DEEPEST = 8
"""Limits on files of settings and on keys; ours have two levels."""
Tree = TypeVar("Tree", bound=Settings)


def preset_names(family: str) -> list[str]:
    """The presets of a family that ship with the package."""
    folder = resources.files("x2localizer") / "configs" / family
    return sorted(Path(item.name).stem for item in folder.iterdir() if item.name.endswith(".toml"))


def load_config(tree: type[Tree], family: str, preset: str | Path, overrides: Sequence[str] = ()) -> Tree:
    """Read a preset by name, or a TOML file by path, and apply overrides like ``test.towns=4``."""
    values = _read_preset(family, preset)
    for override in overrides:
        _apply(values, override)
    return validate(tree, values)


def from_overrides(tree: type[Tree], overrides: Sequence[str]) -> Tree:
    """The defaults with overrides like ``budget=4``."""
    values: dict[str, Any] = {}
    for override in overrides:
        _apply(values, override)
    return validate(tree, values)


def validate(tree: type[Tree], values: dict[str, Any]) -> Tree:
    """Values as a typed tree, or an error that names the key and the nearest known one."""
    try:
        return tree.model_validate(values)
    except ValidationError as problem:
        raise _explain(tree, problem) from problem


def _read_preset(family: str, preset: str | Path) -> dict[str, Any]:
    path = Path(preset)
    if path.suffix == ".toml":
        try:
            text = read_bounded(path, MOST_BYTES)
        except (OSError, ValueError) as problem:
            raise ConfigError(
                f"Cannot read the config {path}.", "Check that the file is there and is TOML."
            ) from problem
    else:
        names = preset_names(family)
        if str(preset) not in names:
            raise ConfigError(f"There is no {family} preset '{preset}'.", nearest(str(preset), names))
        file = resources.files("x2localizer") / "configs" / family / f"{preset}.toml"
        text = file.read_text(encoding="utf-8")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise ConfigError(
            f"The config {preset} is not valid TOML: {problem}.", "Fix the syntax on that line."
        ) from problem
    except (RecursionError, ValueError) as problem:  # a number of thousands of digits, too
        raise ConfigError(
            f"The config {preset} is nested too deep, or has an endless number.", "Use plain values in sections."
        ) from problem


def _apply(values: dict[str, Any], override: str) -> None:
    """Set one dotted key; the value is read as TOML, and as plain text if it is no TOML."""
    key, equals, text = override.partition("=")
    parts = [part.strip() for part in key.split(".")]
    if not equals or not all(parts):
        raise ConfigError(f"'{override}' is not an override.", "Write --set section.key=value.")
    try:
        value = tomllib.loads(f"value = {text.strip()}")["value"]
    except ValueError:
        value = text.strip()
    except RecursionError as problem:
        raise ConfigError(f"The value of '{key.strip()}' is nested too deep.", "Give a plain value.") from problem
    if len(parts) > DEEPEST:
        raise ConfigError(f"'{key.strip()[:80]}' has too many parts.", "Shorten the key.")
    branch = values
    for part in parts[:-1]:
        branch = branch.setdefault(part, {})
        if not isinstance(branch, dict):
            raise ConfigError(f"'{key.strip()}' goes below '{part}', which is a value.", "Shorten the key.")
    branch[parts[-1]] = value


def _explain(tree: type[Settings], problem: ValidationError) -> ConfigError:
    """The first thing wrong, in a user's words."""
    first = problem.errors()[0]
    where = [str(part) for part in first["loc"]]
    if first["type"] == "extra_forbidden":
        known = _keys_at(tree, where[:-1])
        return ConfigError(f"Unknown config key '{'.'.join(where)}'.", nearest(where[-1], known))
    if not where:
        return ConfigError(
            f"The config does not fit together: {first['msg'].removeprefix('Value error, ')}.", "Change one of them."
        )
    return ConfigError(
        f"Config key '{'.'.join(where)}' = {_shortened(first.get('input'))}: {first['msg']}.", "Change its value."
    )


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


def _keys_at(tree: type[Settings], path: list[str]) -> list[str]:
    """The known keys of a branch."""
    branch: Any = tree
    for part in path:
        field = branch.model_fields[part].annotation
        branch = next((arg for arg in (field, *get_args(field)) if isinstance(arg, type)), field)
    return list(branch.model_fields)
