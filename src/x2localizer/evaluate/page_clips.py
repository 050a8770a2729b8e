"""Sections of the benchmark page about clips: which region, which tile, and what of the method counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from x2localizer.evaluate import compression, entrants, plan, seeds, streams, tables, variants
from x2localizer.evaluate.completed import kept_text
from x2localizer.evaluate.page_section import Section, Values, data_options
from x2localizer.similarity import similarities

REGION_TITLES = [entrants.BASELINES[run.name.removeprefix("town-")] for run in plan.REGION_BASELINES]
FRAME_TITLES = [entrants.BASELINES[run.name.removeprefix("town-")] for run in plan.FRAME_BASELINES]
VARIANTS = (
    "R@1 with s_mix. Each variant repeats stage 3, a quarter as long as for the released model. Points gained over the "
    "paper's objective are the mean over the budgets, paired by video.\n\n"
)

CHANGES = {
    "all": "the recipe, with towers of the size of `town`",
    "no-headings": "without headings, and without the tile ahead",
    "around": "the tile around the camera, not ahead",
    "no-nights": "without nights, more towns instead",
    "few-towns": "12 towns instead of 100",
    "one-frame": "one frame of each clip in a batch, not four, from 12 towns, not three",
    "easy": "clips of 28 towns in a batch, not of three: easier negatives",
    "large-batch": "336 pairs a step instead of 112, from nine towns, by cached gradients",
    "average": "weights averaged over the last fifty steps or so",
    "stem": "a stem trained on ImageNet",
    "deep": "8 blocks for frames instead of 5",
    "frame-patch": "patches of 8 pixels instead of 16, for frames",
    "patch": "patches of 8 pixels, for frames and tiles",
    "town": "the bundle, not trained further",
    "eye": "the bundle as shipped, trained for hours",
}
"""What the runs of the eye's changes are called."""


def _prefix_retrieval(values: Values) -> str:
    return "\n\n".join([
        "Which region holds the video? The towers of stage 1 are ranked by s_f and by s_best, the mean over frames of "
        "the best tile, which is not in the paper. Other networks ([how ours differ](baselines.md)) have one code for "
        "a video and are ranked by s_g.",
        *_lacking(REGION_TITLES, values), *_kept(values),
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


def _changes_by_day(values: Values) -> str:
    return _changes(
        values, "What single changes bring on the way from `town` to `eye`: the same training with one thing changed. "
        "All start from the towers of `town` and have as much time: a step that takes twice as long is taken half as "
        "often. [The commands](model.md#what-each-change-brought). Validation towns, by day, ranked by s_path.",
    )  # fmt: skip


def _changes_at_night(values: Values) -> str:
    return _changes(values, "The same models in the same towns, on clips at night.")


def _changes(values: Values, text: str) -> str:
    rows = [variants.VariantRow(**row) for row in values["rows"]]
    titles = {name: f"`{name}`: {title}" for name, title in CHANGES.items()}
    return f"{text}\n\n{variants.table_text(rows, titles)}"


def _frame_localization(values: Values) -> str:
    return "\n\n".join([
        "Methods for single frames compare each with the tiles of all regions; GAMa* finds ten regions first.",
        *_lacking([*FRAME_TITLES, entrants.HIERARCHICAL], values), *_kept(values), fine_tables(values),
    ])  # fmt: skip


def _random_start(values: Values) -> str:
    return "\n\n".join([
        "From a random keyframe on, seed 42; the starts are in the results file.",
        tables.prefix_text([cell for cell in _cells(values) if not _beyond(cell)]),
        tables.fine_text([tables.FineCell(**row) for row in values["fine"]]),
    ])  # fmt: skip


def _ablations(values: Values) -> str:
    return _variants(values, [plan.WITHOUT, *plan.ABLATIONS])


def _sensitivity(values: Values) -> str:
    return _variants(values, plan.SENSITIVITY)


def _variants(values: Values, planned: Iterable[str]) -> str:
    """Those that were measured, and the names of all others that are planned."""
    done = {row["run"] for row in values["rows"]}
    missing = [name for name in planned if name not in done]
    lacking = [f"Not trained: {', '.join(missing)}."] if missing else []
    return VARIANTS + "\n\n".join([by_budget(values["rows"]), *lacking, *_kept(values)])


def _seeds(values: Values) -> str:
    missing = values["untrained"]
    return "\n\n".join([
        "Stages 2 and 3 of the released recipe, of the control and of DeiT*, with as many seeds each as the column "
        "says, from the same towers of stage 1. R@1: the mean over seeds, the least and the most, and a 95% interval "
        "over seeds and videos.",
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
        f"`x2l evaluate {run} --protocol streams --data {data_options(values)}`. Ranked by s_path; "
        "`every 5 s` are the paper's keyframes.\n\n"
        "![R@1 over frames encoded](results/streams/curves.png)\n\n" + streams.table_text(rows)
    )


def _compression(values: Values) -> str:
    rows = [compression.CompressionRow(**row) for row in values["rows"]]
    return (
        "Bundles in other precisions, or with fewer tokens, beside the one they were made from, ranked by "
        f"{rows[0].similarity}: `x2l evaluate {' '.join(row.run for row in rows)} --protocol compression --data "
        f"{data_options(values)}`. Times are medians, taken in turns in one run; in parentheses, what "
        "the first takes divided by what this one takes. Points lost are the mean over the budgets.\n\n"
        + compression.table_text(rows)
    )


def _families(values: Values) -> str:
    rows = values["rows"]
    return (
        "Each network at the paper's size and at that of towns, with random weights: one training step on the CPU, and "
        "the time to encode a prefix of eight frames (one frame for GAMa-Net, DSM and L2LTR, which have no prefixes): "
        "`x2l bench families --preset gama-timesformer` and so on; those of towns with `--batch 0 --times 3 "
        "--precision bf16-mixed`.\n\n"
    ) + tables.markdown(
        ["preset", "stage", "parameters", "batch", "GFLOP a step", "precision", "step", "peak memory", "encodes in"],
        ((name, row["stage"], f"{row['params_m']:.1f} M", row["batch"], f"{row['gflops_step']:,.0f}", row["precision"],
          f"{row['step_s']:.2f} s", f"{row['peak_gb']:.1f} GB", f"{row['encode_ms']:,.1f} ms")
         for name, row in rows.items()),
    )  # fmt: skip


def _decoding(values: Values) -> str:
    return (
        "Frames of clips matched one by one, along our path, and by the temporal decoder, on the same candidates: "
        f"`x2l evaluate town --protocol fine --decoder decoders/town --data {data_options(values)}`."
        "\n\n" + tables.fine_text([tables.FineCell(**row) for row in values["rows"]])
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


def prefix_table(values: Values) -> str:
    """Every row of prefix retrieval."""
    return tables.prefix_text(_cells(values))


def fine_tables(values: Values) -> str:
    """Every row of frame localization, a table for each gallery."""
    return "\n\n".join([
        "Candidates found once, and refreshed by SWRL. Tiles centred on the cameras' places, as in the paper:",
        tables.fine_text(_fine_cells(values, "gps")),
        "Tiles of the map's grid at half stride, as in a deployment:",
        tables.fine_text(_fine_cells(values, "grid")),
    ])  # fmt: skip


# Rows -----------------------------------------------------------------------------------------------------------------


def by_budget(rows: Sequence[Values], label: str = "run") -> str:
    """R@1 at each budget and their mean, a line for each row; and what it gained, where rows say that."""
    budgets = sorted({row["budget"] for row in rows})
    compared = any("gained" in row for row in rows)
    lines = []
    for name in dict.fromkeys(row[label] for row in rows):
        values = {row["budget"]: row["r1"] for row in rows if row[label] == name}
        mean = sum(values.values()) / len(values)
        lines.append([name, *(f"{values[b]:.1f}" for b in budgets), f"{mean:.1f}"])
        if compared:
            points = next(row.get("gained") for row in rows if row[label] == name)
            lines[-1].append("-" if points is None else tables.gained(*points))
    titles = ["", *(f"tau = {budget}" for budget in budgets), "mean"]
    return tables.markdown([*titles, "points gained (95%)"] if compared else titles, lines)


def _lacking(titles: Sequence[str], values: Values) -> list[str]:
    """A sentence about the models that results should have and do not, if there are such."""
    missing = [title for title in titles if title not in {row["model"] for row in values["rows"]}]
    return [f"Not trained yet: {', '.join(missing)}."] if missing else []


def _kept(values: Values) -> list[str]:
    """A sentence about rows that were measured before the others, if there are such."""
    text = kept_text(values)
    return [text] if text else []


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


CLIP_SECTIONS = (
    Section("Prefix retrieval (table 1)", "coarse", _prefix_retrieval),
    Section("The shipped bundles on drives as cars drive", "coarse-bundle", _released, optional=True),
    Section("The shipped bundles at night", "coarse-night", _at_night, optional=True),
    Section("What the changes of the eye brought", "eye-changes", _changes_by_day, optional=True),
    Section("What they brought at night", "eye-changes-night", _changes_at_night, optional=True),
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
    Section("Size, work and time of every network", "families", _families, optional=True),
    Section("Temporal decoding on clips", "decoding", _decoding, optional=True),
    Section("Smaller bundles", "compression", _compression, optional=True),
)
