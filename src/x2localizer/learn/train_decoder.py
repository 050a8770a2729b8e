"""Training of the temporal decoder: on the frozen codes of stage 1, in three rounds.

A sample is one frame with the choices before it. In the first round these are the tiles nearest to the truth, or the
best tiles of single frames; later also what the decoder itself chose so far, so that it learns to leave a wrong path.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional as F

from x2localizer.config import DecoderSettings
from x2localizer.encoders.tile_decoder import (
    FORMAT,
    GRAPH,
    LOOK_BACK,
    MANIFEST,
    TileChoices,
    TileDecoder,
    graph_digest,
    log_odds,
    open_decoder,
)
from x2localizer.errors import CheckpointError, DatasetError
from x2localizer.files import atomic_path, only_writer, write_bytes, write_text
from x2localizer.geo import RIGHT_WITHIN_M
from x2localizer.learn.decoder import DecoderNet, to_onnx

ROUNDS = 3
NEAR_M = 30.0
"""Among right tiles, the nearer to the truth, the better: the standard deviation of the target."""
STRIDES = (1, 2, 3, 5)
"""Frames between two that count, drawn for each sample: cameras send them at different rates."""
WEIGHTS = "decoder.safetensors"
TOLERANCE = 1e-3
"""Largest difference from torch that the graph may have, in log-probabilities."""

Report = Callable[[int, int, dict[str, float]], None]
"""Called with the step, the number of steps, and the loss or metrics."""


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """Sequences with their truth: metres east and north in the same plane, (s, f, 2)."""

    choices: TileChoices
    truth_m: np.ndarray[Any, np.dtype[np.float64]]


class _Lessons:
    """Samples of sequences as tensors."""

    def __init__(self, lesson: Lesson) -> None:
        choices = lesson.choices
        offset = choices.xy_m - lesson.truth_m[:, :, None]  # places around the truth: exact as 32-bit floats
        self.way = torch.from_numpy(np.diff(lesson.truth_m, axis=1, prepend=lesson.truth_m[:, :1]).cumsum(1)).float()
        self.offset = torch.from_numpy(np.where(choices.there[..., None], offset, 1e6)).float()
        self.odds = torch.from_numpy(log_odds(choices.similarity, choices.there))
        self.similarity = torch.from_numpy(np.where(choices.there, choices.similarity, 0.0)).float()
        self.there = torch.from_numpy(choices.there)
        self.times = torch.tensor(choices.times_s, dtype=torch.float32)
        away = self.offset.square().sum(-1).sqrt()
        self.right = (away <= RIGHT_WITHIN_M) & self.there
        target = torch.where(self.right, torch.exp(-0.5 * (away / NEAR_M).square()) + 1e-6, torch.zeros(()))
        self.target = target / target.sum(-1, keepdim=True).clamp(min=1e-12)
        self.nearest, self.top = away.argmin(-1), torch.zeros(away.shape[:2], dtype=torch.long)
        self.own = self.top  # what the decoder chose so far; at first the best tile of each frame
        self.known = self.there.any(-1)

    def inputs(self, s: Tensor, f: Tensor, past: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What the decoder sees at frames ``f`` of sequences ``s``, (n,), after choices at frames ``past``, (n, p)."""
        marks = (past >= 0) & self.known[s[:, None], past.clamp(min=0)]
        index = past.clamp(min=0)
        rows = s[:, None]
        back = self.way[rows, index] + self.offset[rows, index, chosen]
        here = self.way[s, f][:, None] + self.offset[s, f]
        last = marks.float().argmax(1)
        origin = torch.where(marks.any(1)[:, None], back[torch.arange(len(s)), last], here[:, 0])[:, None]
        facts = torch.stack([
            self.times[s, f][:, None] - self.times[rows, index], self.odds[rows, index, chosen],
            self.similarity[rows, index, chosen],
        ], -1)  # fmt: skip
        seen = torch.cat([back - origin, facts], -1) * marks[..., None]
        there = self.there[s, f]
        tiles = torch.cat([here - origin, self.odds[s, f][..., None], self.similarity[s, f][..., None]], -1)
        return seen, marks.float(), tiles * there[..., None], there.float()


def train_decoder(
    settings: DecoderSettings, train: Lesson, held_out: Lesson, out: Path, encoder: str,
    report: Report = lambda step, steps, values: None, origin: dict[str, Any] | None = None,
) -> TileDecoder:  # fmt: skip
    """Train a decoder and write it into a folder, beside whatever is there: its graph, its weights, what it is.

    encoder: the fingerprint of the encoder whose codes were compared.
    origin: what to store about the data it was trained on.
    """
    if settings.threads:
        torch.set_num_threads(settings.threads)
    torch.manual_seed(settings.seed)
    rng = np.random.default_rng(settings.seed)
    lessons, judged = _Lessons(train), _Lessons(held_out)
    samples = torch.nonzero(lessons.right.any(-1))
    if not len(samples) or not judged.right.any():
        raise DatasetError(
            "No frame has a right tile among its best: there is nothing to learn.",
            "Use a better encoder, or more data.",
        )
    net = DecoderNet(settings)
    optimizer = torch.optim.AdamW(net.parameters(), lr=settings.lr, weight_decay=settings.weight_decay)
    started, rounds = time.monotonic(), []
    with only_writer(out):
        for step in range(settings.steps):
            if step and step % math.ceil(settings.steps / ROUNDS) == 0:
                rounds.append(_judge(net, judged))
                report(step, settings.steps, rounds[-1])
                lessons.own = choose(net, lessons)
            loss = _loss(net, lessons, samples[torch.from_numpy(rng.integers(len(samples), size=settings.batch))], rng)
            for group in optimizer.param_groups:
                group["lr"] = settings.lr * min(1.0, (step + 1) / 50) * (
                    0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * step / settings.steps))
                )  # fmt: skip
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            report(step + 1, settings.steps, {"loss": float(loss.detach())})
        metrics = _judge(net, judged)
        report(settings.steps, settings.steps, metrics)
        training = {
            **(origin or {}), "frames": len(samples), "minutes": round((time.monotonic() - started) / 60, 1),
            "metrics": metrics,
        }  # fmt: skip
        return _write(net.eval(), settings, out, encoder, training)


def _loss(net: DecoderNet, lessons: _Lessons, samples: Tensor, rng: np.random.Generator) -> Tensor:
    """The cross-entropy of some frames, (n, 2), after the truth, single frames' best tiles, or own choices."""
    s, f = samples[:, 0], samples[:, 1]
    n = len(s)
    stride = torch.from_numpy(rng.choice(STRIDES, size=(n, 1)))
    begin = torch.from_numpy(rng.integers(0, 1 + f.numpy()))[:, None]  # a drive may have begun at any frame before
    past = f[:, None] - stride * torch.tensor(LOOK_BACK)
    past = torch.where(past >= begin, past, -1)
    rows, index = s[:, None], past.clamp(min=0)
    kind = torch.from_numpy(rng.random((n, 1)))
    mixed = torch.from_numpy(rng.random((n, len(LOOK_BACK)))) < 0.2
    true, own, top = lessons.nearest[rows, index], lessons.own[rows, index], lessons.top[rows, index]
    chosen = torch.where(kind < 0.4, torch.where(mixed, top, true), torch.where(kind < 0.9, own, top))
    seen, marks, tiles, there = lessons.inputs(s, f, past, chosen)
    turn = torch.from_numpy(rng.random((n, 1)) * 2 * math.pi).float()
    seen, tiles = _turned(seen, turn), _turned(tiles, turn)
    return F.kl_div(net(seen, marks, tiles, there), lessons.target[s, f], reduction="batchmean")


def _turned(rows: Tensor, angle: Tensor) -> Tensor:
    """Places turned about the last choice, (n, m, 2 or more): no direction is special."""
    x, y = rows[..., 0], rows[..., 1]
    return torch.cat([
        torch.stack([x * angle.cos() - y * angle.sin(), x * angle.sin() + y * angle.cos()], -1), rows[..., 2:]
    ], -1)  # fmt: skip


@torch.no_grad()
def choose(net: DecoderNet, lessons: _Lessons) -> Tensor:
    """The tiles that a decoder chooses one after the other, without a beam, (s, f)."""
    net.eval()
    s = torch.arange(len(lessons.there))
    out = torch.zeros(lessons.there.shape[:2], dtype=torch.long)
    for f in range(out.shape[1]):
        past = (f - torch.tensor(LOOK_BACK)).expand(len(s), -1)
        chosen = out[s[:, None], past.clamp(min=0)]
        frame = torch.full_like(s, f)
        for part in torch.split(s, 512):
            out[part, f] = net(*lessons.inputs(part, frame[part], past[part], chosen[part])).argmax(-1)
    net.train()
    return out


def _judge(net: DecoderNet, lessons: _Lessons) -> dict[str, float]:
    """Percent of frames whose choice is within 80 m: by the decoder, by the best tile, and the most possible."""
    own, known = choose(net, lessons), lessons.known
    right = lessons.right.gather(2, own[..., None]).squeeze(-1)
    return {
        "decoder": 100.0 * float(right[known].float().mean()),
        "frame": 100.0 * float(lessons.right[..., 0][known].float().mean()),
        "possible": 100.0 * float(lessons.right.any(-1)[known].float().mean()),
    }


def _write(
    net: DecoderNet, settings: DecoderSettings, out: Path, encoder: str, training: dict[str, Any]
) -> TileDecoder:
    """Write weights and graph, check the graph against torch, and last say that they are there."""
    with atomic_path(out / WEIGHTS) as target:
        save_file({name: tensor.contiguous() for name, tensor in net.state_dict().items()}, target)
    write_bytes(out / GRAPH, to_onnx(net, settings).SerializeToString(deterministic=True))
    manifest = {
        "format": FORMAT, "encoder": encoder, "settings": settings.model_dump(mode="json"),
        "graph": graph_digest(out), "training": training,
    }  # fmt: skip
    write_text(out / MANIFEST, json.dumps(manifest, indent=2) + "\n")
    decoder = open_decoder(out)
    difference = check_graph(net, decoder)
    if not difference <= TOLERANCE:
        (out / MANIFEST).unlink()
        raise CheckpointError(f"The decoder's graph differs from torch by {difference:.2g}.", "Report this as a bug.")
    return decoder


@torch.no_grad()
def check_graph(net: DecoderNet, decoder: TileDecoder, n: int = 5) -> float:
    """The largest difference of the graph from torch, on noise, where a tile is there."""
    generator = torch.Generator().manual_seed(0)
    k, p = decoder.settings.tiles, len(LOOK_BACK)
    past, tiles = torch.randn(n, p, 5, generator=generator) * 50, torch.randn(n, k, 4, generator=generator)
    marks, there = torch.rand(n, p, generator=generator) < 0.7, torch.rand(n, k, generator=generator) < 0.9
    there[:, 0] = True
    expected = net(past, marks.float(), tiles, there.float()).numpy()
    found = decoder.step(past.numpy(), marks.numpy(), tiles.numpy(), there.numpy())
    return float(np.abs(expected - found)[there.numpy()].max())
