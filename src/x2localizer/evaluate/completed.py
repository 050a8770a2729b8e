"""Results that are completed run by run: what was measured before is kept beside what is measured now.

Training every row of a table takes longer than most machines are free. A row is kept as long as it answers the same
question: the same clips and regions. The page says of each when it was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from x2localizer.files import read_json

Values = dict[str, Any]


def completed(new: Values, path: Path, order: Sequence[str]) -> Values:
    """New results with those rows of a results file that are of other runs, if it is about the same clips.

    order: runs in the order of the table; others come first, as they are.
    """
    old = read_json(path) if path.is_file() else {}
    if not new.get("clips") or old.get("clips") != new["clips"] or old.get("split") != new.get("split"):
        return new
    measured = {_name(row) for row in new["rows"]}
    kept = [row for row in old["rows"] if _name(row) not in measured]
    if not kept:
        return new
    place = {run: number for number, run in enumerate(order)}
    rows = sorted([*kept, *new["rows"]], key=lambda row: place.get(row["run"], -1))
    before = {_name(row): old.get("measured", {}).get(_name(row), [old["date"], old["machine"]]) for row in kept}
    values = {**new, "rows": rows, "measured": before}
    if "claims" in new and not new["claims"]:  # claims are about the first runs, which were not measured again
        values["claims"] = old.get("claims", [])
    return values


def kept_text(values: Values) -> str:
    """A sentence about the rows that were measured before; empty if there are none."""
    by_day: dict[str, list[str]] = {}
    for name, (date, machine) in values.get("measured", {}).items():
        by_day.setdefault(f"{date} ({machine})", []).append(name)
    if not by_day:
        return ""
    days = "; ".join(f"{', '.join(names)} on {day}" for day, names in by_day.items())
    return f"Measured earlier, on the same clips: {days}. Times compare within one measurement."


def _name(row: Values) -> str:
    """The model of a row and its run."""
    return f"{row['model']} of {row['run']}"
