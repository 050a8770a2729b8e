"""The typed config tree: presets in TOML, dotted overrides, no unknown keys.

Order: the defaults below, then a preset, then ``--set a.b=c``. The resolved tree is stored with everything that is
made from it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from x2localizer.errors import ConfigError, nearest

RELEASED = "eye"
"""The bundle of this package that is used where none is named."""
STAGES = ("image", "full", "progressive")
"""The stages of training, in their order; each is a branch of TrainSettings."""


class Settings(BaseModel):
    """A branch of the tree: frozen, and strict about its keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class TownSettings(Settings):
    """How large a town is and how finely it is painted."""

    tiles: int = Field(37, ge=9, le=74)
    """Side of the town in tiles of zoom 19 (about 58 m); one tile on each side is margin. 37 takes 0.8 GB, 74 four
    times as much."""
    pixels_per_tile: int = Field(128, ge=32, le=256, multiple_of=32)
    """Pixels of the aerial picture per tile: 128 is 0.45 m."""


class SplitSettings(Settings):
    """The towns of one split, and what is driven in them."""

    towns: int = Field(1, ge=0)
    first_seed: int = Field(0, ge=0, lt=1 << 32)
    """Towns are seeds first_seed, first_seed + 1, ...; splits never share a seed, so never share ground."""
    videos_per_region: int = Field(3, ge=0, le=99)
    """Drives in each region of the grid."""
    grid: bool = True
    """True: regions fill the town without overlap. False: each video has a region of its own, anywhere around it."""
    videos_per_town: int = Field(72, ge=1, le=2000)
    """With grid = false: drives in each town."""
    long_drives_per_town: int = Field(0, ge=0, le=99)
    night_share: float = Field(0.0, ge=0, le=1)
    """Share of the clips that are filmed at night. Of the long drives it is always a quarter."""


class DatasetSettings(Settings):
    """A dataset of towns."""

    town: TownSettings = TownSettings()
    train: SplitSettings = SplitSettings(grid=False)
    val: SplitSettings = SplitSettings(first_seed=5000)
    test: SplitSettings = SplitSettings(first_seed=9000)
    frame_height: int = Field(64, ge=16, le=1080)
    frame_width: int = Field(128, ge=16, le=1920)
    tile_px: int = Field(64, ge=16, le=256)
    """Pixels of a tile; a region is region_tiles times as wide."""
    tile_margin_px: int = Field(0, ge=0, le=64)
    """Pixels kept around each frame's tile on every side, so that training can cut it off the centre: a camera is
    seldom in the middle of a map's tile."""
    region_tiles: int = Field(7, ge=2, le=15)
    keyframes: int = Field(8, ge=2, le=64)
    keyframe_spacing_s: float = Field(5.0, ge=0.1)
    frame_spacing_s: float = Field(1.0, ge=0.1)
    fair: bool = False
    """True: clear noon, empty roads and the season of the imagery on all drives but the long ones; an easy world."""
    long_drive_s: float = Field(200.0, ge=20, le=3600)
    """Filmed seconds of a long drive; a gap, where there is one, comes on top."""
    longest_gap_s: float = Field(110.0, ge=1, le=600)
    film_fps: float = Field(0.0, ge=0, le=60)
    """Frames per second of the film of long drives, for odometry; 0 makes none."""
    film_height: int = Field(216, ge=32, le=1080)
    film_width: int = Field(384, ge=32, le=1920)
    other_cameras: bool = False
    """True: every second long drive is filmed with another field of view."""
    varied_cameras: float = Field(0.0, ge=0.0, le=1.0)
    """Share of the clips that have a camera of their own: its height, field of view, mounting and exposure."""
    jpeg_quality: int = Field(92, ge=50, le=100)

    @model_validator(mode="after")
    def _fits(self) -> DatasetSettings:
        """Sizes and times that must divide each other do."""
        if self.town.pixels_per_tile % self.tile_px:
            raise ValueError(f"tile_px must divide town.pixels_per_tile, which is {self.town.pixels_per_tile}")
        if self.tile_margin_px > self.tile_px:
            raise ValueError("tile_margin_px must be at most tile_px")
        if self.region_tiles > self.town.tiles - 2:
            raise ValueError(f"region_tiles must be at most town.tiles - 2 = {self.town.tiles - 2}")
        steps = self.keyframe_spacing_s / self.frame_spacing_s
        if abs(steps - round(steps)) > 1e-9 or steps < 1:
            raise ValueError("keyframe_spacing_s must be a multiple of frame_spacing_s")
        if not 5.0 <= (self.keyframes - 1) * self.keyframe_spacing_s <= 120.0:
            raise ValueError("(keyframes - 1) * keyframe_spacing_s must be 5 to 120 seconds")
        if not self.train.towns + self.val.towns + self.test.towns:
            raise ValueError("there must be at least one town")
        return self


class BackboneSettings(Settings):
    """A distilled vision transformer: a model of timm by name, or a small one by its sizes."""

    name: str | None = None
    """A timm model such as deit_small_distilled_patch16_224. It replaces the sizes below."""
    weights: str | None = None
    """'hub' for timm's pretrained weights, or the path of a file. None starts from random weights."""
    stem: Literal["conv", "plain"] = "conv"
    """How patches are embedded: by a few small convolutions, or by one large one as in DeiT."""
    patch: int = Field(16, ge=4)
    """Side of a patch in pixels."""
    width: int = Field(96, ge=8)
    """Length of a token."""
    depth: int = Field(4, ge=1)
    """Number of blocks."""
    heads: int = Field(3, ge=1)
    """Attention heads in a block."""


class ModelSettings(Settings):
    """The two towers: their family, the sizes they work with, and the settings of the family."""

    family: str = "deit"
    """The kind of network, a file in learn/families. deit: a distilled vision transformer with GeoAdapters."""
    options: dict[str, bool | int | float | str] = {}
    """Settings of the family. deit has none; its settings are ``backbone`` and those of the adapters."""
    backbone: BackboneSettings = BackboneSettings()
    """The transformer of the family deit."""
    frame_height: int = Field(64, ge=16)
    """Pixels."""
    frame_width: int = Field(128, ge=16)
    """Pixels."""
    tile_px: int = Field(64, ge=16)
    """Side of a tile in pixels."""
    dim: int = Field(128, ge=8)
    """Length of a code."""
    frames: int = Field(8, ge=1)
    """Frames of the longest prefix."""
    region_tiles: int = Field(7, ge=1)
    """Tiles along the side of a region."""
    adapters: bool = True
    """False is the baseline DeiT: a set is the mean of its images, and stages 2 and 3 train the towers themselves."""
    adapter_ratio: float = Field(0.25, gt=0)
    """Hidden size of an adapter, as a share of the backbone's width."""
    adapter_skip: bool = False
    """True for weights published by GAReT, whose adapter adds its input to its output."""


class ObjectiveSettings(Settings):
    """Weights and temperatures of the objective, by default those of the paper. Keys of tables are budgets."""

    tau_sm: float = Field(0.05, gt=0)
    """Temperature of stage 1. The paper does not give it; this value is ours."""
    tau_c: float = Field(0.07, gt=0)
    """Temperature of the retrieval losses L_g and L_f."""
    tau_f: float = Field(0.01, gt=0)
    """Temperature of the aggregation of tokens in s_f."""
    tau_d: float = Field(0.07, gt=0)
    """Temperature of both distillations."""
    gamma: dict[int, float] = {1: 0.05, 2: 0.10, 4: 0.25, 8: 2.00}
    """Weight of each budget."""
    lambda_g: dict[int, float] = {1: 1.0, 2: 1.0, 4: 1.0, 8: 1.0}
    """Weight of L_g, the loss of whole prefixes and regions."""
    lambda_f: dict[int, float] = {1: 2.0, 2: 1.0, 4: 0.5, 8: 0.0}
    """Weight of L_f, the loss of their tokens."""
    eta_self: float = Field(0.2, ge=0)
    """Weight of L_self: shorter prefixes learn to rank as the full video does."""
    eta_teacher: float = Field(1.0, ge=0)
    """Weight of L_teacher: the full video keeps the ranking of the model of stage 2."""
    fine: Literal["s_f", "s_best"] = "s_f"
    """The similarity in L_f: s_f of the paper, or the mean over frames of the (soft) best tile."""
    eta_keep: float = Field(0.0, ge=0)
    """Stages 2 and 3: weight of a loss that keeps tokens close to image codes. Not in the paper; needs adapters."""


class StageSettings(Settings):
    """One stage of training: how long, how fast, and when to stop."""

    steps: int = Field(1000, ge=1)
    """Batches to train on."""
    batch: int = Field(64, ge=2)
    """Pairs or videos in a batch, in each process."""
    optimizer: Literal["adamw", "muon"] = "adamw"
    """AdamW as in the paper, or Muon for hidden matrices (AdamW for the rest), which saves steps in small towers."""
    lr: float = Field(1e-3, gt=0)
    """Learning rate after the warm-up."""
    ground_lr_share: float = Field(1.0, gt=0, le=1)
    """Learning rate of the ground tower, as a share of the other's: less where it starts from a trained one."""
    weight_decay: float = Field(0.05, ge=0)
    """Decay of all weights that train."""
    warmup: int = Field(200, ge=0)
    """Steps in which the learning rate rises. Then it falls along a cosine to a hundredth."""
    towns_per_batch: int = Field(4, ge=1)
    """Areas that a batch is drawn from. The fewer, the harder its negatives."""
    augment: bool = True
    """Stages 1 and 2: turn and mirror the ground, and change the light of both views. Stage 3: only change the light of
    frames. Regions are encoded once there, so they cannot turn, and mirrored frames would not match them."""
    shift_tiles: bool = True
    """Stage 1, with ``augment``: move tiles off the camera, by up to the dataset's tile_margin_px."""
    evaluate_every: int = Field(500, ge=1)
    """Steps between evaluations."""
    patience: int = Field(1000, ge=1)
    """Evaluations without a new best after which the stage stops."""


class TrainSettings(Settings):
    """Training: the model, the objective and the three stages."""

    seed: int = 42
    """Of weights and batches."""
    model: ModelSettings = ModelSettings()
    objective: ObjectiveSettings = ObjectiveSettings()
    image: StageSettings = StageSettings()
    """Stage 1: frames and tiles. Everything but the adapters trains."""
    full: StageSettings = StageSettings(batch=24)
    """Stage 2: full videos and regions. The adapters train."""
    progressive: StageSettings = StageSettings(batch=24, augment=False)
    """Stage 3: prefixes of all budgets. The ground adapters train; regions are encoded once."""
    budgets: tuple[int, ...] = (1, 2, 4, 8)
    """Frames of the prefixes in stage 3."""
    threads: int = Field(0, ge=0)
    """Threads of torch on the CPU; 0 leaves the choice to torch."""
    workers: int = Field(1, ge=0, le=64)
    """Processes that make batches ahead of time. `x2l bench loader` measures how many pictures one of them reads."""
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """The kind of device to train on."""
    devices: int = Field(1, ge=1)
    """Processes on each machine, one per GPU. Each draws its own batch; the regions of all are negatives."""
    nodes: int = Field(1, ge=1)
    """Machines."""
    precision: Literal["32-true", "bf16-mixed"] = "32-true"
    """bf16-mixed is for GPUs; on CPUs it is far slower."""

    @model_validator(mode="after")
    def _keeps(self) -> TrainSettings:
        """eta_keep compares tokens with towers that do not train."""
        if self.objective.eta_keep and not self.model.adapters:
            raise ValueError("objective.eta_keep needs model.adapters: without them the towers themselves train")
        return self


MOTIONS: dict[str, dict[str, Any]] = {
    # Standing is made rarer than it is: it lets a tile that resembles everything hold the belief.
    "car": {"speeds_m_s": (0.0, 8.0, 13.0), "speed_shares": (0.05, 0.35, 0.6), "turn_share": 0.12,
            "cruise_m_s": 23.0, "top_m_s": 45.0, "slack_m": 200.0},
    "robot": {"speeds_m_s": (0.0, 0.6, 1.5), "speed_shares": (0.1, 0.4, 0.5), "turn_share": 0.2,
              "cruise_m_s": 2.5, "top_m_s": 6.0, "slack_m": 100.0},
    "person": {"speeds_m_s": (0.0, 0.8, 1.4), "speed_shares": (0.1, 0.3, 0.6), "turn_share": 0.2,
               "cruise_m_s": 2.0, "top_m_s": 8.0, "slack_m": 100.0},
}  # fmt: skip
"""How things that carry cameras move. Only the car's figures were fitted, on drives through validation towns."""


class MotionSettings(Settings):
    """How the camera may move. ``kind`` sets everything else; single values can be changed."""

    kind: Literal["car", "robot", "person"] = "car"
    speeds_m_s: tuple[float, ...] = MOTIONS["car"]["speeds_m_s"]
    """Speeds that a belief moves at, in metres per second."""
    speed_shares: tuple[float, ...] = MOTIONS["car"]["speed_shares"]
    """How probable each of them is in any second."""
    turn_share: float = Field(MOTIONS["car"]["turn_share"], ge=0, le=1)
    """Probability of turning by 45 degrees, left or right, in any second."""
    cruise_m_s: float = Field(MOTIONS["car"]["cruise_m_s"], gt=0)
    """The fastest ordinary speed: how far apart the tiles of two keyframes may lie, along each axis."""
    top_m_s: float = Field(MOTIONS["car"]["top_m_s"], gt=0)
    """The speed that is never exceeded: how far the camera may be from its last fix."""
    slack_m: float = Field(MOTIONS["car"]["slack_m"], ge=0)
    """Error of a last fix, in metres, that is added to how far the camera may have come."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, values: Any) -> Any:
        """Take what is not given from the kind."""
        if not isinstance(values, dict):
            return values
        return {**MOTIONS.get(str(values.get("kind", "car")), {}), **values}

    @model_validator(mode="after")
    def _fits(self) -> MotionSettings:
        """One share for each speed, and together all of them."""
        if len(self.speeds_m_s) != len(self.speed_shares) or not self.speeds_m_s:
            raise ValueError("speeds_m_s and speed_shares must have the same length")
        if min(self.speeds_m_s) < 0 or min(self.speed_shares) < 0 or abs(sum(self.speed_shares) - 1.0) > 1e-6:
            raise ValueError("speeds must not be negative, and speed_shares must add up to 1")
        return self


class LocalizeSettings(Settings):
    """From frames to fixes."""

    policy: str = "swrl"
    """When to search: swrl searches every window again, once lets the first window decide."""
    frame_spacing_s: float = Field(1.0, gt=0)
    keyframe_spacing_s: float = Field(5.0, gt=0)
    """Seconds between the keyframes of a window."""
    window_s: float = Field(20.0, gt=0)
    """Seconds between the starts of two windows."""
    budget: int = Field(8, ge=1)
    """Keyframes in a window; tau in the paper."""
    similarity: str = "s_path"
    """How regions are ranked. s_path adds up the odds of all paths through a region's tiles and needs only the frames'
    image codes; s_mix is the paper's similarity, in which the best frame decides, and needs set codes."""
    candidates: int = Field(10, ge=1)
    """Regions whose tiles a frame is matched with; K_c in the paper."""
    matching: Literal["path", "frame"] = "path"
    """frame: the best tile of each frame by itself, as in the paper; path: tiles must be reachable from each other."""
    motion: MotionSettings = MotionSettings()
    """How the camera may move."""
    sharpness: float = Field(6.0, gt=0)
    """Path matching: weight of a frame's similarities, as log-probability per unit."""
    recall_weight: float = Field(40.0, ge=0)
    """Path matching: weight of the regions' similarities, as log-probability per unit."""
    restart_share: float = Field(0.1, ge=0, le=1)
    """Path matching: share of the belief that each search spreads over the candidates again."""
    teleport_probability: float = Field(1e-3, ge=0, le=1)
    """Path matching: share of the belief that each frame spreads over all tiles."""
    gap_s: float = Field(8.0, gt=0)
    """Seconds without a usable frame after which the window starts again."""


class TrackSettings(Settings):
    """The belief over poses, and how much each term of evidence counts."""

    frame_spacing_s: float = Field(1.0, gt=0)
    """Seconds between frames that are compared with tiles."""
    step_s: float = Field(0.5, gt=0)
    """Seconds of odometry that poses are moved by at once."""
    use_tiles: bool = True
    use_roads: bool = True
    off_map: float = Field(0.3, gt=0, lt=1)
    """Probability of not being on the map, before anything was seen."""
    pose_spacing_m: float = Field(5.0, gt=0)
    """Distance of the poses along roads at the start, in both directions."""
    most_poses: int = Field(300_000, ge=1000)
    start_poses: int = Field(250_000, ge=1000)
    """At least so many at the start, however small the map is."""
    more_on_tiles: float = Field(3.0, ge=1)
    """So many times as many at the start without roads; those that the first frames speak for are kept."""
    least_poses: int = Field(6_000, ge=100)
    unclear_poses: int = Field(80_000, ge=100)
    """At least so many while several places are possible: a place that has lost its last pose is lost."""
    poses_per_cell: int = Field(150, ge=1)
    """Poses for each half tile that may hold the camera; they become fewer as the belief narrows."""
    trust_tiles: float = Field(0.5, ge=0, le=1)
    """Share of the poses that believe the tiles at the start; the others wait for roads and turns alone."""
    tile_weight: float = Field(0.25, ge=0)
    """Weight of a frame's evidence: neighbouring frames are not independent."""
    tile_apart_m: float = Field(10.0, gt=0)
    """Distance after which a frame counts in full."""
    temperature: float = Field(0.06, gt=0)
    """Of the softmax over tiles, where they fit well."""
    temperature_most: float = Field(0.14, gt=0)
    temperature_slope: float = Field(0.6, ge=0)
    good_similarity: float = 0.85
    """Similarity of the best tiles at which they fit well."""
    tile_error_share: float = Field(0.1, gt=0, lt=1)
    """Probability that a frame tells nothing of its place."""
    tile_level: float = Field(0.5, ge=0, le=1)
    """Share of a frame's information that being off the map explains."""
    road_weight: float = Field(0.5, ge=0)
    """Weight of ten metres of driving."""
    road_sd_m: float = Field(7.0, gt=0)
    """How far from the middle of its road a car drives, the error of the map included."""
    road_sd_deg: float = Field(20.0, gt=0)
    junction_share: float = Field(0.12, ge=0, le=1)
    """What driving across a road counts against driving along it."""
    off_road_share: float = Field(0.03, gt=0, lt=1)
    """What being far from any road counts: parking lots, missing roads, ferries."""
    road_level: float = -0.4
    """Logarithm of what "not on this map" counts as while driving straight."""
    road_level_in_turns: float = -1.0
    """What is added to it in a turn of 60 degrees or more."""
    scatter_m: float = Field(1.0, ge=0)
    """How far poses are scattered when they are drawn again."""
    scatter_deg: float = Field(0.6, ge=0)
    scatter_scale: float = Field(0.003, ge=0)
    scatter_bias_deg_s: float = Field(0.02, ge=0)
    change_trust: float = Field(0.01, ge=0, le=1)
    gap_s: float = Field(3.0, gt=0)
    """Seconds without odometry after which the camera may have gone anywhere in reach."""
    search_s: float = Field(60.0, gt=0)
    """Seconds after which a search of the whole map ends if it has found nothing: a second belief that starts again
    and must do better."""
    search_pause_s: float = Field(10.0, ge=0)
    """Seconds between the end of a search and the next."""
    search_gain: float = Field(3.0, ge=0)
    """By how much, in nats, a search must explain the drive better to replace the belief."""
    search_below: float = Field(0.95, ge=0, le=1)
    """The belief is in doubt, and the map is searched, while less of it lies around the best place. Not the confidence:
    that is fitted on drives, which must not depend on it."""
    motion: MotionSettings = MotionSettings()
    seed: int = Field(42, ge=0)


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
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as problem:
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


def _apply(values: dict[str, Any], override: str) -> None:
    """Set one dotted key; the value is read as TOML, and as plain text if it is no TOML."""
    key, equals, text = override.partition("=")
    parts = [part.strip() for part in key.split(".")]
    if not equals or not all(parts):
        raise ConfigError(f"'{override}' is not an override.", "Write --set section.key=value.")
    try:
        value = tomllib.loads(f"value = {text.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
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
    return ConfigError(f"Config key '{'.'.join(where)}' = {first.get('input')!r}: {first['msg']}.", "Change its value.")


def _keys_at(tree: type[Settings], path: list[str]) -> list[str]:
    """The known keys of a branch."""
    branch: Any = tree
    for part in path:
        field = branch.model_fields[part].annotation
        branch = next((arg for arg in (field, *get_args(field)) if isinstance(arg, type)), field)
    return list(branch.model_fields)
