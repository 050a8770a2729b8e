"""The benchmark page, made of the results files and of nothing else.

A section whose results are missing says so. Our comments (``notes.md``) come at the end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from x2localizer.evaluate import benchmark, compression, seeds, streams, tables, tracking_tables
from x2localizer.evaluate.long_range_table import ArmRow, LongRange, table_text
from x2localizer.files import write_text
from x2localizer.similarity import similarities

Values = dict[str, Any]
VARIANTS = "R@1 with s_mix. Each variant repeats stage 3, a quarter as long as for the released model.\n\n"


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
    for section in SECTIONS:
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


# Sections ------------------------------------------------------------------------------------------------------------


def _prefix_retrieval(values: Values) -> str:
    return "\n\n".join([
        "Which region holds the video? The towers of stage 1 are ranked by s_f and by s_best, the mean over frames of "
        "the best tile, which is not in the paper.",
        tables.prefix_text([cell for cell in _cells(values) if not _beyond(cell)]),
        "The claims, by paired bootstrap on the same videos:",
        tables.claims_text([tables.Claim(**row) for row in values["claims"]]),
    ])  # fmt: skip


def _released(values: Values) -> str:
    return _bundles(
        values, "The bundles that come with the package, on the dataset of this version: "
        "`x2l evaluate town eye --data data/standard`.",
    )  # fmt: skip


def _at_night(values: Values) -> str:
    return _bundles(
        values, "The same towns, and other clips, all of them at night: `x2l evaluate town eye --data data/night`."
    )


def _bundles(values: Values, text: str) -> str:
    """What bundles reach by the similarities that they are used with."""
    cells = [cell for cell in _cells(values) if cell.similarity in ("s_mix", "s_sum", "s_path")]
    return f"{text}\n\n{tables.prefix_text(cells)}"


def _frame_localization(values: Values) -> str:
    return "\n\n".join([
        "Candidates found once, and refreshed by SWRL. Tiles centred on the cameras' places, as in the paper:",
        tables.fine_text(_fine_cells(values, "gps")),
        "Tiles of the map's grid at half stride, as in a deployment:",
        tables.fine_text(_fine_cells(values, "grid")),
    ])  # fmt: skip


def _random_start(values: Values) -> str:
    return "\n\n".join([
        "From a random keyframe on, seed 42; the starts are in the results file.",
        tables.prefix_text([cell for cell in _cells(values) if not _beyond(cell)]),
        tables.fine_text([tables.FineCell(**row) for row in values["fine"]]),
    ])  # fmt: skip


def _ablations(values: Values) -> str:
    return _variants(values, benchmark.ABLATIONS)


def _sensitivity(values: Values) -> str:
    return _variants(values, benchmark.SENSITIVITY)


def _variants(values: Values, planned: Iterable[str]) -> str:
    """Those that were measured, and the names of all others that are planned."""
    done = {row["run"] for row in values["rows"]}
    missing = [name for name in planned if name not in done]
    return VARIANTS + by_budget(values["rows"]) + (f"\n\nNot trained: {', '.join(missing)}." if missing else "")


def _seeds(values: Values) -> str:
    missing = values["untrained"]
    return "\n\n".join([
        "Stages 2 and 3 of the released recipe, of the control and of DeiT*, three times each, from the same towers of "
        "stage 1. R@1: the mean over seeds, the least and the most, and a 95% interval over seeds and videos.",
        seeds.seeds_text([seeds.SeedRow(**row) for row in values["rows"]]),
        "The claims over seeds and videos; one holds if it does so for every seed, and its whole interval does:",
        seeds.claims_text([seeds.SeedClaim(**row) for row in values["claims"]]),
        *([f"Not trained: {', '.join(missing)}."] if missing else []),
    ])  # fmt: skip


def _streams(values: Values) -> str:
    rows = [streams.StreamRow(**row) for row in values["rows"]]
    run = " ".join(dict.fromkeys(row.run for row in rows))
    return (
        "Which region holds the clip, by other frames than its keyframes: more of them, or those that add something: "
        f"`x2l evaluate {run} --protocol streams --data {_data(values)}`. Ranked by s_path; "
        "`every 5 s` are the paper's keyframes.\n\n"
        "![R@1 over frames encoded](results/streams/curves.png)\n\n" + streams.table_text(rows)
    )


def _compression(values: Values) -> str:
    rows = [compression.CompressionRow(**row) for row in values["rows"]]
    return (
        "Bundles in other precisions, or with fewer tokens, beside the one they were made from, ranked by "
        f"{rows[0].similarity}: `x2l evaluate {' '.join(row.run for row in rows)} --protocol compression --data "
        f"{_data(values)}`. Times are medians, taken in turns in one run; in parentheses, what "
        "the first takes divided by what this one takes. Points lost are the mean over the budgets.\n\n"
        + compression.table_text(rows)
    )


def _decoding(values: Values) -> str:
    return (
        "Frames of clips matched one by one, along our path, and by the temporal decoder, on the same candidates: "
        f"`x2l evaluate town --protocol fine --decoder decoders/town --data {_data(values)}`."
        "\n\n" + tables.fine_text([tables.FineCell(**row) for row in values["rows"]])
    )


def _decoding_long(values: Values) -> str:
    return (
        "The same on long drives, with candidates found once and by SWRL: `x2l evaluate town --protocol long-range "
        f"--no-tracking --decoder decoders/town --data {_data(values)}`.\n\n" + _arms(values)
    )


def _candidates(values: Values) -> str:
    order = sorted(
        values["rows"], key=lambda row: (-row["budget"], row["candidates"], row["similarity"], row["refresh"])
    )
    return tables.markdown(
        ["tau", "candidates", "similarity", "refresh", "Gate@K", "R@1 (95%)", "R@5", "R@10"],
        ((row["budget"], row["candidates"], row["similarity"], row["refresh"], f"{row['gate']:.1f}",
          tables.spread(row["r1"], row["r1_low"], row["r1_high"]), f"{row['r5']:.1f}", f"{row['r10']:.1f}")
         for row in order),
    )  # fmt: skip


def _heatmaps(values: Values) -> str:
    return (
        "Four test videos, drawn with seed 42: their regions, some keyframes, and how similar the image codes of each "
        "keyframe and of the tiles at half stride are. The path is drawn over them.\n\n"
        "![heatmaps](results/heatmaps/heatmaps.png)"
    )


def _every_frame(values: Values) -> str:
    text = (
        "s_f is nearly a maximum over all pairs of frames and tiles: one lucky pair decides. s_best, the mean over "
        "frames of the best tile, asks every frame for evidence. The others compare image codes, which no adapter has "
        "touched, with tiles at half stride. s_half is s_best there. s_sum adds the odds of all tiles instead of "
        "taking the best. s_path adds the odds of all paths whose tiles are within reach of each other; the localizer "
        "uses it.\n\n"
    )
    return text + by_budget([_labelled(row, "model") for row in values["rows"] if _is_ours(row)], "label")


def _every_frame_in_training(values: Values) -> str:
    text = (
        "R@1. Each variant repeats stage 3, a quarter as long as for the released model. L_f by s_best ranks by the "
        "mean over frames of the soft best tile, at all budgets. Tokens kept leaves stage 2 out: regions are those of "
        "stage 1, the ground adapters train by s_best alone, and a term holds their tokens to the codes of stage 1.\n\n"
    )
    return text + by_budget([_labelled(row, "run") for row in values["rows"]], "label")


def _long_range(values: Values) -> str:
    return (
        "The localizer over one gallery of all test towns.\n\n"
        "![share of frames within 80 m over time](results/long-range/curves.png)\n\n" + _arms(values)
    )


def _long_range_today(values: Values) -> str:
    return (
        "The localizer over one gallery of all test towns, on the dataset of this version: `x2l evaluate town "
        "--protocol long-range --no-tracking --arms SWRL --arms once --data data/standard`.\n\n" + _arms(values)
    )


def _long_range_beside_garet(values: Values) -> str:
    return (
        "Our objective beside GAReT's on the dataset of this version, each frame by itself as in the paper, regions by "
        "s_mix and by s_g: `x2l evaluate town runs/town-garet/bundle --protocol long-range --no-tracking --data "
        "data/standard`.\n\n"
        "![share of frames within 80 m over time](results/long-range-garet/curves.png)\n\n" + _arms(values)
    )


def _long_range_on_regions(values: Values) -> str:
    return (
        "The paper's setting, beside GAReT's objective: the dataset's own regions, and tiles centred on the places "
        "where other cameras were; each frame by itself: `x2l evaluate town runs/town-garet/bundle --protocol "
        "long-range --gallery dataset --no-tracking --data data/standard`.\n\n"
        "![share of frames within 80 m over time](results/long-range-dataset/curves.png)\n\n" + _arms(values)
    )


def _tracking(values: Values) -> str:
    return (
        f"{values['rides']} long drives followed by odometry, on one map of all test towns"
        f"{off_map(values['foreign_rides'])}.\n\n"
        "![share of frames within 80 m over time](results/tracking/curves.png)\n\n"
        + tracking_tables.table_text(tracking_tables.from_values(values["rows"]))
    )


def _tracking_terms(values: Values) -> str:
    return (
        f"The first {values['rides']} of these drives, with some of the map left out, degraded, or smoothed: "
        f"`x2l evaluate town --protocol tracking --data data/standard --rides {values['rides']}`.\n\n"
        + tracking_tables.table_text(tracking_tables.from_values(values["rows"]))
    )


def _tracking_with_eye(values: Values) -> str:
    command = (
        "x2l evaluate eye --protocol tracking --data data/standard --foreign data/foreign "
        '--arms "sensors, tiles and roads"'
    )
    return (
        "The same drives with the bundle `eye` and the tracker of this version, by odometry of sensors: "
        f"`{command}`; {values['rides']} drives{off_map(values['foreign_rides'])}. The table above is of the bundle "
        "`town` and of an earlier tracker.\n\n"
        + tracking_tables.table_text(tracking_tables.from_values(values["rows"]))
    )


def _tracking_terms_with_eye(values: Values) -> str:
    command = f"x2l evaluate eye --protocol tracking --data data/standard --rides {values['rides']}"
    return (
        f"The first {values['rides']} of these drives, by odometry of sensors and by that from their videos, filmed at "
        f"6 frames a second; with some of the map left out, degraded, or smoothed: `{command}`.\n\n"
        + tracking_tables.table_text(tracking_tables.from_values(values["rows"]))
    )


def _data(values: Values) -> str:
    """The dataset and the split of results, as options of a command."""
    return f"data/{values.get('data', 'standard')} --split {values['split']}"


def off_map(rides: int) -> str:
    """How many drives were off the map."""
    return f"; {rides} more are off the map" if rides else ""


def _arms(values: Values) -> str:
    rows = tuple(ArmRow(**row) for row in values["rows"])
    return table_text(LongRange(rows, values["gains"], values["curves"], values["reliability"]))


SECTIONS = (
    Section("Prefix retrieval (table 1)", "coarse", _prefix_retrieval),
    Section("The shipped bundles on drives as cars drive", "coarse-bundle", _released, optional=True),
    Section("The shipped bundles at night", "coarse-night", _at_night, optional=True),
    Section("Frame localization (table 2)", "fine", _frame_localization),
    Section("Random start (table 3)", "random-start", _random_start),
    Section("The objective (table 4a)", "ablations", _ablations),
    Section("Candidates and SWRL (table 4b)", "candidates", _candidates),
    Section("Sensitivity", "sensitivity", _sensitivity),
    Section("The spread of seeds", "seeds", _seeds),
    Section("What the towers see", "heatmaps", _heatmaps),
    Section("Beyond the paper: every frame counts", "coarse", _every_frame),
    Section("Beyond the paper: every frame counts in training", "beyond", _every_frame_in_training),
    Section("Denser streams and chosen frames", "streams", _streams, optional=True),
    Section("Temporal decoding on clips", "decoding", _decoding, optional=True),
    Section("Smaller bundles", "compression", _compression, optional=True),
    Section("Long range", "long-range", _long_range),
    Section("Long range on drives as cars drive", "long-range-today", _long_range_today, optional=True),
    Section("Long range beside GAReT's objective", "long-range-garet", _long_range_beside_garet, optional=True),
    Section("Temporal decoding on long drives", "decoding-long", _decoding_long, optional=True),
    Section("Long range on the dataset's regions", "long-range-dataset", _long_range_on_regions),
    Section("Tracking", "tracking", _tracking),
    Section("Tracking with the eye", "tracking-eye", _tracking_with_eye, optional=True),
    Section("Tracking with the eye, each term left out", "tracking-eye-terms", _tracking_terms_with_eye, optional=True),
    Section("Tracking, each term left out", "tracking-terms", _tracking_terms, optional=True),
)


# Rows ----------------------------------------------------------------------------------------------------------------


def by_budget(rows: Sequence[Values], label: str = "run") -> str:
    """R@1 at each budget and their mean, a line for each row."""
    budgets = sorted({row["budget"] for row in rows})
    lines = []
    for name in dict.fromkeys(row[label] for row in rows):
        values = {row["budget"]: row["r1"] for row in rows if row[label] == name}
        mean = sum(values.values()) / len(values)
        lines.append([name, *(f"{values[b]:.1f}" for b in budgets), f"{mean:.1f}"])
    return tables.markdown(["", *(f"tau = {budget}" for budget in budgets), "mean"], lines)


def _cells(values: Values) -> list[tables.Cell]:
    return [tables.Cell(**row) for row in values["rows"]]


def _fine_cells(values: Values, gallery: str) -> list[tables.FineCell]:
    return [tables.FineCell(**row) for row in values["rows"] if row["gallery"] == gallery]


def _beyond(cell: tables.Cell) -> bool:
    """Rows that the paper does not have, but for the baseline of the stage-1 towers."""
    return _of_tiles(cell.similarity) or (cell.similarity == "s_best" and cell.model != "stage-1 towers")


def _is_ours(row: Values) -> bool:
    ours = row["run"] == "town" and row["model"] in ("stage-1 towers", "X²Localizer")
    return bool(ours and (row["similarity"] in ("s_mix", "s_best") or _of_tiles(row["similarity"])))


def _of_tiles(name: str) -> bool:
    return name in similarities.names() and similarities.get(name).codes == "tiles"


def _labelled(row: Values, by: str) -> Values:
    """A row whose label is its run or its model, and the similarity."""
    return {**row, "label": f"{row[by]}, {row['similarity']}"}
