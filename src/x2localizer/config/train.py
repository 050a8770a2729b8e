"""Settings of models and of their training."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from x2localizer.config.base import Settings

STAGES = ("image", "full", "progressive")
"""The stages of training, in their order; each is a branch of TrainSettings."""


class BackboneSettings(Settings):
    """A distilled vision transformer: a model of timm by name, or a small one by its sizes."""

    name: str | None = None
    """A timm model such as deit_small_distilled_patch16_224. It replaces the sizes below."""
    weights: str | None = None
    """'hub' for timm's pretrained weights, or the path of a file. None starts from random weights."""
    stem: Literal["conv", "plain", "efficientnet_lite0"] = "conv"
    """How patches are embedded: by a few small convolutions, by one large one as in DeiT, or by the first stages of a
    network that learned on ImageNet."""
    stem_weights: str | None = None
    """The path of a file with the weights of efficientnet_lite0, for a stem of it."""
    patch: int = Field(16, ge=4)
    """Side of a patch in pixels."""
    frame_patch: int | None = Field(None, ge=4)
    """The same for frames, if it differs: a map is encoded tile by tile, a camera frame by frame, so that small patches
    of frames cost little."""
    width: int = Field(96, ge=8)
    """Length of a token."""
    depth: int = Field(4, ge=1)
    """Number of blocks."""
    frame_depth: int | None = Field(None, ge=1)
    """The same for frames, if it differs, for the same reason."""
    heads: int = Field(3, ge=1)
    """Attention heads in a block."""

    def patch_of(self, *, tiles: bool) -> int:
        """Side of a patch of tiles, or of frames."""
        return self.patch if tiles or self.frame_patch is None else self.frame_patch

    def depth_of(self, *, tiles: bool) -> int:
        """Number of blocks of the tower of tiles, or of that of frames."""
        return self.depth if tiles or self.frame_depth is None else self.frame_depth


class ModelSettings(Settings):
    """The two towers: their family, the sizes they work with, and the settings of the family."""

    family: str = "deit"
    """The kind of network, a file in learn/families. deit: a distilled vision transformer with GeoAdapters."""
    options: dict[str, bool | int | float | str] = {}
    """Settings of the family. deit has none; its settings are ``backbone`` and those of the adapters."""
    backbone: BackboneSettings = BackboneSettings()
    """The transformer of the family deit."""
    frame_height: int = Field(64, ge=16, le=4096)
    """Pixels."""
    frame_width: int = Field(128, ge=16, le=4096)
    """Pixels."""
    tile_px: int = Field(64, ge=16, le=1024)
    """Side of a tile in pixels."""
    dim: int = Field(128, ge=8, le=65536)
    """Length of a code."""
    frames: int = Field(8, ge=1, le=1024)
    """Frames of the longest prefix."""
    region_tiles: int = Field(7, ge=1, le=64)
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
    scale_distillation: bool = True
    """Whether both distillations are multiplied by tau_d^2, as the paper prints them. At 0.07 that is 0.005, and next
    to nothing is left of them; False leaves the factor out."""
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
    accumulate: int = Field(1, ge=1)
    """Parts that a batch passes through the towers in, one after the other. The gradient is that of the whole batch; it
    takes the memory of a part, and a second forward pass."""
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
    average: float = Field(0.0, ge=0, lt=1)
    """How much of an average of the weights each step keeps; the average is what is judged and saved. 0.99 averages the
    last hundred steps or so; 0 does not average."""
    towns_per_batch: int = Field(4, ge=1)
    """Areas that a batch is drawn from. The fewer, the harder its negatives."""
    areas: int | None = Field(None, ge=1)
    """Only the clips of the first so many areas, to see what more of them bring. None: all."""
    nights: bool = True
    """Whether clips at night are used."""
    frames_per_clip: int = Field(1, ge=1)
    """Stage 1: frames that a batch takes of each of its clips. With more than one, the other tiles are also of the same
    street, the hardest negatives there are."""
    augment: bool = True
    """Stages 1 and 2: turn and mirror the ground, and change the light of both views. Stage 3: only change the light of
    frames. Regions are encoded once there, so they cannot turn, and mirrored frames would not match them."""
    vary: float = Field(0.0, ge=0, le=1)
    """With ``augment``: how much further light and colours may change, and how much of pictures is hidden; in stage 1
    frames are zoomed and shifted, too. 0: not at all."""
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
    image_teacher: str = ""
    """A bundle or a checkpoint whose image codes stage 1 learns, too: for networks without pretrained weights."""
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
    checkpointing: bool = False
    """Compute the inside of each block again for its gradient instead of keeping it: less memory, more time."""
    precision: Literal["32-true", "bf16-mixed"] = "32-true"
    """bf16-mixed is for GPUs, and CPUs with bfloat16 instructions; on others it is far slower."""

    @model_validator(mode="after")
    def _keeps(self) -> TrainSettings:
        """eta_keep compares tokens with towers that do not train."""
        if self.objective.eta_keep and not self.model.adapters:
            raise ValueError("objective.eta_keep needs model.adapters: without them the towers themselves train")
        return self


class DecoderSettings(Settings):
    """The temporal decoder: what it chooses from, what it remembers, its size, and its training."""

    seed: int = 42
    """Of weights and batches."""
    tiles: int = Field(16, ge=2, le=256)
    """The best tiles of a frame, among which the decoder chooses; K in GAReT, 10 there."""
    width: int = Field(32, ge=8, multiple_of=4)
    """Length of a token."""
    depth: int = Field(2, ge=1)
    """Number of blocks."""
    heads: int = Field(4, ge=1)
    """Attention heads in a block."""
    steps: int = Field(2400, ge=3)
    """Batches to train on, in three rounds; after each the decoder's own choices become its memory in training."""
    batch: int = Field(128, ge=2)
    """Frames in a batch."""
    lr: float = Field(2e-3, gt=0)
    """Learning rate after the warm-up; it falls along a cosine."""
    weight_decay: float = Field(0.01, ge=0)
    threads: int = Field(1, ge=0)
    """Threads of torch; its matrices are too small for several. 0 leaves the choice to torch."""
