"""What stage 3 keeps fixed, computed once: the codes of all regions, and the teacher's codes of all videos."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from x2localizer.learn.batches import Videos
from x2localizer.learn.checkpoint import fingerprint_of, write_tensors
from x2localizer.learn.gather import rank_and_world, wait_for_all
from x2localizer.learn.model import Model
from x2localizer.learn.report import Report, quiet
from x2localizer.learn.score import embed_prefixes, embed_regions

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Frozen:
    """Codes of the training split that no longer change, in memory that is mapped from their file.

    On GAMa they take 4.1 GB: all processes of a machine share these pages, and no device holds more than a batch.

    whole: one code for each region, (n, d).
    tokens: one code for each tile, (n, l, d).
    teacher: one code for each full video, (v, d).
    device: where batches go.
    """

    whole: Tensor
    tokens: Tensor
    teacher: Tensor
    device: torch.device

    def whole_of(self, regions: Tensor) -> Tensor:
        """The codes of some regions, on the device: (r,) on the CPU -> (r, d)."""
        return self.whole[regions].to(self.device)

    def tokens_of(self, regions: Tensor) -> Tensor:
        """The tokens of some regions, on the device: (r,) on the CPU -> (r, l, d)."""
        return self.tokens[regions].to(self.device)

    def teacher_of(self, videos: Tensor) -> Tensor:
        """The teacher's codes of some videos, on the device: (v,) on the CPU -> (v, d)."""
        return self.teacher[videos].to(self.device)


def freeze(model: Model, train: Videos, folder: Path, report: Report = quiet) -> Frozen:
    """The codes of a model, from a file named after its weights and the dataset.

    The first process computes the file if it is not there, which takes minutes; the others wait for it.
    """
    weights = fingerprint_of(dict(model.state_dict()))
    variants = {tower.variant(sets=True) for tower in (model.ground, model.aerial)}
    path = folder / f"frozen-{weights}{''.join(sorted(variants))}-{train.data.contents}.safetensors"
    rank, _ = rank_and_world()
    if rank == 0 and not path.is_file():
        logger.info("encoding %d regions and %d videos once", len(train.region_rows), len(train.videos))
        full = model.settings.frames
        regions = embed_regions(model, train, progress=lambda done, total: report("regions", done, total, {}))
        prefixes = embed_prefixes(model, train, [full], progress=lambda done, total: report("videos", done, total, {}))
        teacher = prefixes[full].whole
        write_tensors(path, {"whole": regions.whole, "tokens": regions.tokens, "teacher": teacher})
    wait_for_all()
    codes = load_file(path)  # maps the file
    return Frozen(codes["whole"], codes["tokens"], codes["teacher"], next(model.parameters()).device)
