"""The benchmark page, made of the results files and of nothing else.

A section whose results are missing says so. Our comments (``notes.md``) come at the end.
"""

from __future__ import annotations

import json
from pathlib import Path

from x2localizer.evaluate.page_clips import CLIP_SECTIONS
from x2localizer.evaluate.page_drives import DRIVE_SECTIONS
from x2localizer.evaluate.page_section import Values
from x2localizer.files import write_text


def load_results(folder: Path) -> dict[str, Values]:
    """All results below a folder, by name."""
    return {
        path.parent.name: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(folder.glob("*/results.json"))
    }  # fmt: skip


def write_page(results: Path, page: Path) -> None:
    """Write the page from the results that are there, with our comments on them (``notes.md``) at the end."""
    write_text(page, page_of(results))


def page_of(results: Path) -> str:
    """The page as it should be."""
    notes = results / "notes.md"
    return page_text(load_results(results), notes.read_text(encoding="utf-8") if notes.is_file() else "")


def page_text(results: dict[str, Values], notes: str = "") -> str:
    """The benchmark page; a section whose results are missing says so. A ``note`` in results comes before its table."""
    lines = [
        "# The benchmark on synthetic towns", "",
        "Written by `x2l benchmark town` from the files in [results](results). None of its figures is typed by hand, "
        "except in our comments at the end.", "",
    ]  # fmt: skip
    for section in (*CLIP_SECTIONS, *DRIVE_SECTIONS):
        if section.optional and section.results not in results:
            continue
        lines += [f"## {section.title}", ""]
        if section.results not in results:
            lines += ["Not run yet.", ""]
            continue
        values = results[section.results]
        counts = [
            f"{values[key]:,} {word}" for key, word in (("videos", "videos"), ("gallery", "regions")) if key in values
        ]
        lines += [", ".join([*counts, values["machine"], values["date"]]) + ".", ""]
        lines += [values["note"], ""] if "note" in values else []
        lines += [section.text(values), ""]
    return "\n".join(lines + ([notes.strip(), ""] if notes else []))
