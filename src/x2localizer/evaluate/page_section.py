"""A section of the benchmark page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page.

    title: its heading.
    results: the name of the results it is made of.
    text: what it says about them.
    optional: left out without results, instead of saying that they are missing.
    """

    title: str
    results: str
    text: Callable[[Values], str]
    optional: bool = False


def data_options(values: Values) -> str:
    """The dataset and the split of results, as options of a command."""
    return f"data/{values.get('data', 'standard')} --split {values['split']}"
