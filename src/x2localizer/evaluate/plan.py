"""The training runs that the paper's tables on synthetic towns need: which there are, and which are missing.

``PLAN`` is every one of them.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from x2localizer.config import STAGES
from x2localizer.errors import UserError, nearest


@dataclass(frozen=True, slots=True)
class Planned:
    """A training run: preset, stages, the checkpoint it starts from, overrides, and the one that stage 1 learns from.

    Checkpoints are named from the folder of runs.
    """

    name: str
    preset: str
    stages: tuple[str, ...]
    start: str | None = None
    overrides: tuple[str, ...] = ()
    teacher: str | None = None

    @property
    def last(self) -> str:
        """Where its last stage tells that it is done."""
        return f"{self.name}/{self.stages[-1]}/done.json"

    def command(self, data: str, runs: str, more: Sequence[str] = ()) -> str:
        """As a user would type it."""
        words = ["x2l", "train", "--preset", self.preset, "--data", data, "--out", f"{runs}/{self.name}"]
        if self.stages != STAGES:
            words += ["--stages", ",".join(self.stages)]
        if self.start:
            words += ["--start", f"{runs}/{self.start}"]
        for item in self.settings(runs, more):
            words += ["--set", item]
        return shlex.join(words)

    def settings(self, runs: str, more: Sequence[str] = ()) -> list[str]:
        """What differs from the preset, and what a user sets besides."""
        return [*self.overrides, *([f"image_teacher={runs}/{self.teacher}"] if self.teacher else []), *more]

    def after_stage_1(self) -> Planned:
        """What is left of it once stage 1 is done."""
        own = f"{self.name}/image/best.safetensors"
        kept = tuple(item for item in self.overrides if not item.startswith("image."))
        return replace(self, stages=self.stages[1:], start=own, overrides=kept, teacher=None)


def variant_of(start: str, name: str, overrides: tuple[str, ...]) -> Planned:
    """Stage 3 once more, with another objective, a quarter as long as the released model."""
    return Planned(f"town-{name}", "town", ("progressive",), start, (*overrides, *SHORTER))


SHORTER = ("progressive.steps=100", "progressive.evaluate_every=100", "progressive.warmup=20")
STAGE_1 = "town/image/best.safetensors"
STAGE_2 = "town/full/best.safetensors"
MAIN = (
    Planned("town-centred", "town", ("image",), None, ("image.shift_tiles=false",)),
    Planned("town", "town", STAGES, "town-centred/image/best.safetensors", ("image.steps=7000", "image.lr=1e-3")),
    Planned("town-garet", "town", ("full",), STAGE_2, ("seed=43", "full.steps=300", "full.lr=1e-3")),
    Planned("town-deit", "town-deit", ("full", "progressive"), STAGE_1),
)
# The paper's other rows, trained on full videos or on single frames as there. In place of ImageNet weights, which small
# networks have none of, they learn from frame-tile pairs and from the towers of stage 1 first; docs/baselines.md.
REGION_BASELINES = tuple(
    Planned(f"town-{name}", f"town-{name}", ("image", "full"), teacher=STAGE_1)
    for name in ("timesformer", "videoswin", "cvlnet", "screening", "seqgeo")
)
FRAME_BASELINES = (
    Planned("town-dsm", "town-dsm", ("image",)),  # its codes have another shape than those of a teacher
    Planned("town-l2ltr", "town-l2ltr", ("image",), teacher=STAGE_1),
    Planned("town-gamanet", "town-gamanet", ("image",), teacher=STAGE_1),
)
HIERARCHICAL_RUN = "town-screening+town-gamanet"
"""What GAMa*, which is two of these runs, is called in results."""
SEEDS = (42, 43, 44)
"""Of stages 2 and 3; 42 is that of the main runs. All share the towers of stage 1, which takes hours: what is compared
are objectives, and these begin with stage 2."""


def seeded(seed: int) -> tuple[Planned, ...]:
    """The released recipe, the control and DeiT* with another seed."""
    own = f"town-seed-{seed}"
    return (
        Planned(own, "town", ("full", "progressive"), STAGE_1, (f"seed={seed}",)),
        Planned(
            f"town-garet-seed-{seed}", "town", ("full",), f"{own}/full/best.safetensors",
            (f"seed={seed + 1}", "full.steps=300", "full.lr=1e-3"),
        ),
        Planned(f"town-deit-seed-{seed}", "town-deit", ("full", "progressive"), STAGE_1, (f"seed={seed}",)),
    )  # fmt: skip


OTHER_SEEDS = tuple(planned for seed in SEEDS[1:] for planned in seeded(seed))
REFERENCE = "the paper's objective"
WITHOUT = "without it: stage 2 alone"
"""The first row of table 4a, for which nothing is trained."""
EVERYWHERE = "objective.lambda_f={1=1, 2=1, 4=1, 8=1}"
# Table 4a of the paper: what is left out of the objective.
ABLATIONS = {
    "global only": ("objective.lambda_f={1=0, 2=0, 4=0, 8=0}",),
    "fine only": ("objective.lambda_g={1=0, 2=0, 4=0, 8=0}", EVERYWHERE),
    "symmetric": (EVERYWHERE,),
    "without self-distillation": ("objective.eta_self=0",),
    "without teacher": ("objective.eta_teacher=0",),
    "distillation without tau_d^2": ("objective.scale_distillation=false",),
}
SENSITIVITY = {
    "lambda_f (1, 0.5, 0.25)": ("objective.lambda_f={1=1.0, 2=0.5, 4=0.25, 8=0}",),
    "lambda_f (1, 1, 1)": ("objective.lambda_f={1=1, 2=1, 4=1, 8=0}",),
    "lambda_f (4, 2, 1)": ("objective.lambda_f={1=4, 2=2, 4=1, 8=0}",),
    "tau_f 0.005": ("objective.tau_f=0.005",),
    "tau_f 0.02": ("objective.tau_f=0.02",),
    "tau_c 0.05": ("objective.tau_c=0.05",),
    "tau_c 0.10": ("objective.tau_c=0.1",),
    "eta_self 0.1": ("objective.eta_self=0.1",),
    "eta_self 0.4": ("objective.eta_self=0.4",),
    "eta_teacher 0.5": ("objective.eta_teacher=0.5",),
    "eta_teacher 1.5": ("objective.eta_teacher=1.5",),
    "tau_d 0.05": ("objective.tau_d=0.05",),
    "tau_d 0.10": ("objective.tau_d=0.1",),
}

# Beyond the paper: every frame counts while training too; and without stage 2, with tokens held to those of stage 1.
NOT_GLOBAL = ("objective.lambda_g={1=0, 2=0, 4=0, 8=0}", "objective.eta_self=0", "objective.eta_teacher=0")
BY_FRAMES = ("objective.fine=s_best", EVERYWHERE)
BEYOND = {
    "L_f by s_best": variant_of(STAGE_2, "by-frames", BY_FRAMES),
    "L_f by s_best, tokens kept": variant_of(STAGE_1, "kept", (*BY_FRAMES, *NOT_GLOBAL, "objective.eta_keep=1")),
}


def slug(name: str) -> str:
    """A name for a folder."""
    return "".join(c if c.isalnum() or c == "." else "-" for c in name).replace("--", "-").strip("-")


VARIANTS = {REFERENCE: variant_of(STAGE_2, "reference", ())}
VARIANTS |= {name: variant_of(STAGE_2, slug(name), overrides) for name, overrides in ABLATIONS.items()} | BEYOND
VARIANTS |= {name: variant_of(STAGE_2, slug(name), overrides) for name, overrides in SENSITIVITY.items()}
VARIANT_ORDER = [REFERENCE, WITHOUT, *(name for name in VARIANTS if name != REFERENCE)]
"""Rows of the tables of variants; each once, as the last place of a name would count."""
PLAN = (*MAIN, *REGION_BASELINES, *FRAME_BASELINES, *OTHER_SEEDS, *VARIANTS.values())


def planned_as(name: str) -> Planned:
    """A training run by the name of its folder, or of its row in a table."""
    by_name = {planned.name: planned for planned in PLAN} | VARIANTS
    if name not in by_name:
        raise UserError(f"There is no run '{name}'.", nearest(name, [*by_name]))
    return by_name[name]


def variant_checkpoint(name: str) -> str:
    """The best checkpoint of a variant of the objective, named from the folder of runs."""
    return STAGE_2 if name == WITHOUT else f"{VARIANTS[name].name}/progressive/best.safetensors"


def table_of(planned: Planned) -> str:
    """The table that a run is measured for."""
    tables_of = {"ablations": [*ABLATIONS], "sensitivity": [*SENSITIVITY], "beyond": [*BEYOND]}
    for table, names in tables_of.items():
        if any(VARIANTS[name] == planned for name in names):
            return table
    if planned in OTHER_SEEDS:
        return "seeds"
    return "fine" if planned in FRAME_BASELINES else "coarse"


def trained(runs: Path, plan: Sequence[Planned]) -> list[str]:
    """The folders of those runs that are done."""
    return [str(runs / planned.name) for planned in plan if (runs / planned.last).is_file()]


def trained_frame_baselines(runs: Path) -> list[str]:
    """The rows of table 2 that are there: methods for single frames, and GAMa's two networks together."""
    found = trained(runs, FRAME_BASELINES)
    screening, gamanet = (runs / name for name in HIERARCHICAL_RUN.split("+"))
    both = str(screening) in trained(runs, REGION_BASELINES) and str(gamanet) in found
    return [*found, *([f"{screening}+{gamanet}"] if both else [])]


def seconds_of(runs: Path, planned: Planned) -> float | None:
    """How long a run took in all its stages; None if it is not done."""
    files = [runs / planned.name / stage / "last.safetensors" for stage in planned.stages]
    if not (runs / planned.last).is_file() or not all(file.is_file() for file in files):
        return None
    from x2localizer.learn.checkpoint import load_checkpoint  # noqa: PLC0415 - torch is heavy

    return sum(float(load_checkpoint(file).state["seconds"]) for file in files)


def expected_s(runs: Path, planned: Planned) -> float | None:
    """How long a run will take: as long as one of the same preset, stages and lengths that is done; None if none is."""

    def work(run: Planned) -> tuple[object, ...]:
        return run.preset, run.stages, sorted(item for item in run.overrides if ".steps=" in item)

    for other in (*PLAN, *VARIANTS.values()):
        if work(other) == work(planned) and (spent := seconds_of(runs, other)) is not None:
            return spent
    return None


def missing(runs: Path, plan: Sequence[Planned] = PLAN, *, stage_1: bool = False) -> list[Planned]:
    """What is still to be trained.

    stage_1: as if the stage 1 that all share were there.
    """

    def begun(planned: Planned) -> bool:
        own = f"{planned.name}/image/best.safetensors"
        return (stage_1 and own == STAGE_1) or (runs / planned.name / "image" / "done.json").is_file()

    unneeded = {MAIN[0].name} if begun(MAIN[1]) else set()
    left = [planned for planned in plan if planned.name not in unneeded and not (runs / planned.last).is_file()]
    return [
        planned.after_stage_1()
        if planned.stages[0] == "image" and len(planned.stages) > 1 and begun(planned)
        else planned
        for planned in left
    ]
