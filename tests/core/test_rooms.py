"""The order of the rooms: each imports only from itself and from those above it in docs/architecture.md."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "x2localizer"
FILES = sorted(SOURCE.rglob("*.py"))


def _rooms() -> list[str]:
    """The rooms in the order of the docs: modules and packages at the top of the tree."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    block = re.search(r"```\nsrc/x2localizer/\n(.*?)```", text, re.DOTALL)
    assert block is not None
    names = re.findall(r"^  ([a-z_]+)(?:\.py|/)", block[1], re.MULTILINE)
    return [name for name in names if name not in ("configs", "bundles")]


def _room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def _imports(path: Path) -> set[str]:
    """The modules of ours that a file imports, at its top and inside functions; not those for types alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            node.body = []
    out = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            out |= {alias.name for alias in node.names if alias.name.startswith("x2localizer")}
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("x2localizer"):
            if node.module == "x2localizer":
                out |= {f"x2localizer.{alias.name}" for alias in node.names if alias.name != "__version__"}
            else:
                out.add(node.module)
    return out


def test_the_docs_name_every_room() -> None:
    there = {path.stem for path in SOURCE.glob("*.py")} | {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert set(_rooms()) == there - {"__init__"}


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(SOURCE)) for path in FILES])
def test_a_room_imports_only_from_rooms_above_it(path: Path) -> None:
    if path == SOURCE / "__init__.py":
        return
    order = {room: number for number, room in enumerate(_rooms())}
    own = _room_of("x2localizer." + ".".join(path.relative_to(SOURCE).with_suffix("").parts))
    below = {module for module in _imports(path) if order[_room_of(module)] > order[own]}
    assert not below, f"{path.relative_to(SOURCE)} imports {sorted(below)}, which come later"
