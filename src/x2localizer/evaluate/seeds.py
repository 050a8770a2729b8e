"""The spread of seeds: what a claim is worth if the models are trained again."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from x2localizer.datasets.dataset import open_dataset
from x2localizer.evaluate import protocols
from x2localizer.evaluate.entrants import entrants
from x2localizer.evaluate.plan import SEEDS
from x2localizer.evaluate.tables import gained, markdown
from x2localizer.metrics import nested_interval
from x2localizer.types import Floats, Progress

SIMILARITIES = ("s_g", "s_mix")
STAGE_OF = {
    "X²Localizer": ("town", "progressive"), "GAReT's objective": ("town-garet", "full"), "DeiT": ("town-deit", "full"),
    "DeiT*": ("town-deit", "progressive"),
}  # fmt: skip
"""Of each model, the run and the stage whose best checkpoint it is; other seeds have their own runs."""
CLAIMS = (
    ("ours gains over GAReT's objective with s_g", ("X²Localizer", "s_mix"), ("GAReT's objective", "s_g")),
    ("ours gains over GAReT's objective with s_mix", ("X²Localizer", "s_mix"), ("GAReT's objective", "s_mix")),
    ("s_mix beats s_g", ("X²Localizer", "s_mix"), ("X²Localizer", "s_g")),
    ("DeiT* gains over DeiT", ("DeiT*", "s_mix"), ("DeiT", "s_mix")),
    ("adapters are better than none", ("X²Localizer", "s_mix"), ("DeiT*", "s_mix")),
)
Hits = dict[tuple[str, str, int], dict[int, Floats]]
"""Of a model, a similarity and a budget, by seed: 100 for each video whose region comes first, else 0, (v,)."""


@dataclass(frozen=True, slots=True)
class SeedRow:
    """R@1 in percent of one model, over seeds: the mean, the least and the most; low and high are over videos, too."""

    model: str
    similarity: str
    budget: int
    seeds: list[int]
    mean: float
    least: float
    most: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class SeedClaim:
    """A difference of R@1 in points: the mean over seeds with its interval over seeds and videos, and each seed's."""

    claim: str
    budget: int
    seeds: list[int]
    difference: float
    low: float
    high: float
    by_seed: list[float]
    holds: bool


def checkpoint_of(runs: Path, model: str, seed: int) -> Path:
    """The best checkpoint of a model with a seed."""
    run, stage = STAGE_OF[model]
    return runs / (run if seed == SEEDS[0] else f"{run}-seed-{seed}") / stage / "best.safetensors"


def measure_seeds(
    data: Path, split: str, runs: Path, work: Path, report: Progress, earlier: dict[str, Any] | None = None
) -> dict[str, Any] | None:
    """Prefix retrieval of all seeds that were trained, and the claims over them; None if none was.

    earlier: results of other seeds, which count as well if they are about the same clips.
    """
    source = open_dataset(data)
    gallery, clips = len(source.regions(split)), source.clips_name(split)
    hits = _unpacked(earlier) if earlier is not None and earlier.get("clips") == clips else Hits()
    for model in STAGE_OF:
        for seed in SEEDS:
            checkpoint = checkpoint_of(runs, model, seed)
            if not checkpoint.with_name("done.json").is_file():
                continue
            chosen = [replace(entrant, similarities=SIMILARITIES) for entrant in entrants(str(checkpoint))]
            rows, _ = protocols.prefix_rows(chosen, source, split, work, report)
            for row in rows:
                for budget, ranks in row.ranks.items():
                    own = hits.setdefault((model, row.similarity, budget), {})
                    own[seed] = 100.0 * (ranks <= 1).astype(np.float64)
    if not hits:
        return None
    hits = {key: dict(sorted(by_seed.items())) for key, by_seed in hits.items()}
    there = {(key[0], seed) for key, by_seed in hits.items() for seed in by_seed}
    untrained = [f"{model} with seed {seed}" for model in STAGE_OF for seed in SEEDS if (model, seed) not in there]
    videos = len(next(iter(next(iter(hits.values())).values())))
    return {
        "videos": videos, "gallery": gallery, "clips": clips, "untrained": untrained,
        "rows": [asdict(row) for row in seed_rows(hits)], "claims": [asdict(claim) for claim in seed_claims(hits)],
        "hits": _packed(hits),
    }  # fmt: skip


def _packed(hits: Hits) -> list[dict[str, Any]]:
    """Hits for a results file, a bit for each video: other seeds can be measured beside them later."""
    return [
        {
            "model": model, "similarity": similarity, "budget": budget, "seed": seed,
            "bits": base64.b64encode(np.packbits(found > 0).tobytes()).decode("ascii"),
        }
        for (model, similarity, budget), by_seed in hits.items()
        for seed, found in by_seed.items()
    ]  # fmt: skip


def _unpacked(values: dict[str, Any]) -> Hits:
    hits = Hits()
    for row in values["hits"]:
        bits = np.unpackbits(np.frombuffer(base64.b64decode(row["bits"]), np.uint8), count=values["videos"])
        by_seed = hits.setdefault((row["model"], row["similarity"], row["budget"]), {})
        by_seed[row["seed"]] = 100.0 * bits.astype(np.float64)
    return hits


def seed_rows(hits: Hits) -> list[SeedRow]:
    """A row for each model, similarity and budget."""
    rows = []
    for (model, similarity, budget), by_seed in hits.items():
        means = [float(found.mean()) for found in by_seed.values()]
        low, high = nested_interval(np.stack([*by_seed.values()]))
        rows.append(SeedRow(
            model, similarity, budget, [*by_seed], float(np.mean(means)), min(means), max(means), low, high
        ))  # fmt: skip
    return rows


def seed_claims(hits: Hits) -> list[SeedClaim]:
    """The claims at each budget, over the seeds that both sides have; paired by seed and video."""
    claims = []
    for name, ours, theirs in CLAIMS:
        for budget in sorted({key[2] for key in hits}):
            a, b = hits.get((*ours, budget), {}), hits.get((*theirs, budget), {})
            both = [seed for seed in a if seed in b]
            if not both:
                continue
            differences = np.stack([a[seed] - b[seed] for seed in both])
            by_seed, (low, high) = differences.mean(1).tolist(), nested_interval(differences)
            holds = low > 0 and min(by_seed) > 0
            claims.append(
                SeedClaim(name, budget, both, float(differences.mean()), low, high, by_seed, bool(holds))
            )  # fmt: skip
    return claims


def seeds_text(rows: Sequence[SeedRow]) -> str:
    """A line for each model, similarity and budget."""
    return markdown(
        ["model", "similarity", "tau", "seeds", "R@1", "least", "most", "95% over seeds and videos"],
        ((row.model, row.similarity, row.budget, len(row.seeds), f"{row.mean:.1f}", f"{row.least:.1f}",
          f"{row.most:.1f}", f"{row.low:.1f} to {row.high:.1f}") for row in rows),
    )  # fmt: skip


def claims_text(claims: Sequence[SeedClaim]) -> str:
    """A line for each claim and budget."""
    return markdown(
        ["claim", "tau", "difference of R@1 (95%)", "by seed", "holds"],
        ((c.claim, c.budget, gained(c.difference, c.low, c.high),
          ", ".join(f"{value:+.1f}" for value in c.by_seed), "yes" if c.holds else "no") for c in claims),
    )  # fmt: skip
