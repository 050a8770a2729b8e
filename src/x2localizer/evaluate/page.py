"""The benchmark page, made of the results files and of nothing else.

A section whose results are missing says so. Our comments (``notes.md``) come at the end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from x2localizer.evaluate import tables
from x2localizer.evaluate.long_range import ArmRow, LongRange, table_text
from x2localizer.files import write_text
from x2localizer.similarity import similarities

Values = dict[str, Any]
AGAIN = "R@1 with s_mix; each is stage 3 once more, a quarter as long as the released model.\n\n"
SEEN = (
    "Four test videos, drawn with seed 42: their regions, some keyframes, and how similar phi finds each keyframe and "
    "the tiles at half stride. The path is drawn over them.\n\n![heatmaps](results/heatmaps/heatmaps.png)"
)
EVERY_FRAME = (
    "s_f is nearly a maximum over all pairs of frames and tiles: one lucky pair decides. s_best, the mean over frames "
    "of the best tile, asks every frame for evidence. The others are of phi alone, which no adapter has touched, and "
    "of tiles at half stride. s_half is s_best there. s_sum adds the odds of all tiles instead of taking the best. "
    "s_path adds the odds of all paths whose tiles are in reach of each other: the localizer's own."
)
WHILE_TRAINING = (
    "R@1; each is stage 3 once more, a quarter as long as the released model. L_f by s_best ranks by the mean over "
    "frames of the soft best tile, at all budgets. Tokens kept leaves stage 2 out: regions are those of stage 1, the "
    "ground adapters train by s_best alone, and a term holds their tokens to the embeddings of stage 1."
)


def load_results(folder: Path) -> dict[str, Values]:
    """All results below a folder, by name."""
    return {
        path.parent.name: json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(folder.glob("*/results.json"))
    }  # fmt: skip


def by_budget(rows: Sequence[Values], label: str = "run") -> str:
    """R@1 at each budget and their mean, a line for each row."""
    budgets = sorted({row["budget"] for row in rows})
    found = []
    for name in dict.fromkeys(row[label] for row in rows):
        values = {row["budget"]: row["r1"] for row in rows if row[label] == name}
        mean = sum(values.values()) / len(values)
        found.append([name, *(f"{values[b]:.1f}" for b in budgets), f"{mean:.1f}"])
    return tables.markdown(["", *(f"tau = {budget}" for budget in budgets), "mean"], found)


def again(values: Values) -> str:
    """R@1 of variants, and which of them were not trained."""
    missing = values.get("untrained")
    return by_budget(values["rows"]) + (f"\n\nNot trained: {', '.join(missing)}." if missing else "")


def candidates_text(rows: Sequence[Values]) -> str:
    """The table of SWRL."""
    order = sorted(rows, key=lambda row: (-row["budget"], row["candidates"], row["similarity"], row["refresh"]))
    return tables.markdown(
        ["tau", "candidates", "similarity", "refresh", "Gate@K", "R@1 (95%)", "R@5", "R@10"],
        ((row["budget"], row["candidates"], row["similarity"], row["refresh"], f"{row['gate']:.1f}",
          tables.spread(row["r1"], row["r1_low"], row["r1_high"]), f"{row['r5']:.1f}", f"{row['r10']:.1f}")
         for row in order),
    )  # fmt: skip


def write_page(results: Path, page: Path) -> None:
    """Write the page from the results that are there, with our comments on them (``notes.md``) at the end."""
    write_text(page, page_of(results))


def page_of(results: Path) -> str:
    """The page as it should be."""
    notes = results / "notes.md"
    return page_text(load_results(results), notes.read_text(encoding="utf-8") if notes.is_file() else "")


def page_text(found: dict[str, Values], notes: str = "") -> str:
    """The benchmark page; a section whose results are missing says so."""

    def cells(name: str, key: str = "rows") -> list[tables.Cell]:
        return [tables.Cell(**row) for row in found[name][key]]

    def fine_cells(name: str, key: str = "rows", **wanted: str) -> list[tables.FineCell]:
        rows = [tables.FineCell(**row) for row in found[name][key]]
        return [row for row in rows if all(getattr(row, field) == value for field, value in wanted.items())]

    sections: list[tuple[str, str, Callable[[], str]]] = [
        ("Prefix retrieval (table 1)", "coarse", lambda: "\n\n".join([
            "Which region holds the video? The untouched stage-1 towers are ranked by s_f and by s_best, the mean over "
            "frames of the best tile, which is not in the paper.",
            tables.prefix_text([cell for cell in cells("coarse") if not _beyond(cell)]),
            "The claims, by paired bootstrap on the same videos:",
            tables.claims_text([tables.Claim(**row) for row in found["coarse"]["claims"]]),
        ])),
        ("Frame localization (table 2)", "fine", lambda: "\n\n".join([
            "Candidates found once, and refreshed by SWRL. Tiles centred on the cameras' places, as in the paper:",
            tables.fine_text(fine_cells("fine", gallery="gps")),
            "Tiles of the map's grid at half stride, as in a deployment:",
            tables.fine_text(fine_cells("fine", gallery="grid")),
        ])),
        ("Random start (table 3)", "random-start", lambda: "\n\n".join([
            "From a random keyframe on, seed 42; the starts are in the results file.",
            tables.prefix_text([cell for cell in cells("random-start") if not _beyond(cell)]),
            tables.fine_text(fine_cells("random-start", "fine")),
        ])),
        ("The objective (table 4a)", "ablations", lambda: AGAIN + again(found["ablations"])),
        ("Candidates and SWRL (table 4b)", "candidates", lambda: candidates_text(found["candidates"]["rows"])),
        ("Sensitivity", "sensitivity", lambda: AGAIN + again(found["sensitivity"])),
        ("What the towers see", "heatmaps", lambda: SEEN),
        ("Beyond the paper: every frame counts", "coarse", lambda: "\n\n".join([
            EVERY_FRAME,
            by_budget([_labelled(row, "model") for row in found["coarse"]["rows"] if _is_beyond(row)], "label"),
        ])),
        ("Beyond the paper: every frame counts while training", "beyond", lambda: "\n\n".join([
            WHILE_TRAINING,
            by_budget([_labelled(row, "run") for row in found["beyond"]["rows"]], "label"),
        ])),
        ("Long range", "long-range", lambda: "The localizer over one gallery of all test towns.\n\n"
         "![share of frames within 80 m over time](results/long-range/curves.png)\n\n" + table_text(LongRange(
             tuple(ArmRow(**row) for row in found["long-range"]["rows"]), found["long-range"]["gains"],
             found["long-range"]["curves"], found["long-range"]["reliability"]))),
    ]  # fmt: skip
    lines = [
        "# The benchmark on the embedded towns", "",
        "Made by `x2l benchmark town` from the files in [results](results); none of its figures is typed by hand, but "
        "for those in our comments at the end.", "",
    ]  # fmt: skip
    for title, name, text in sections:
        lines += [f"## {title}", ""]
        if name not in found:
            lines += ["Not run yet.", ""]
            continue
        values = found[name]
        told = [
            f"{values[key]:,} {word}" for key, word in (("videos", "videos"), ("gallery", "regions")) if key in values
        ]
        lines += [", ".join([*told, values["machine"], values["date"]]) + ".", "", text(), ""]
    return "\n".join(lines + ([notes.strip(), ""] if notes else []))


def _beyond(cell: tables.Cell) -> bool:
    """Rows that the paper does not have, but for the baseline of the stage-1 towers."""
    return _of_tiles(cell.similarity) or (cell.similarity == "s_best" and cell.model != "stage-1 towers")


def _is_beyond(row: Values) -> bool:
    ours = row["run"] == "town" and row["model"] in ("stage-1 towers", "X²Localizer")
    return bool(ours and (row["similarity"] in ("s_mix", "s_best") or _of_tiles(row["similarity"])))


def _of_tiles(name: str) -> bool:
    return name in similarities.names() and similarities.get(name).codes == "tiles"


def _labelled(row: Values, by: str) -> Values:
    """A row whose label is its run or its model, and the similarity."""
    return {**row, "label": f"{row[by]}, {row['similarity']}"}
