"""The temporal decoder in torch: tiles of a frame look at each other and at the choices before them.

Shapes: n memories, p earlier choices, k tiles of the present frame, w the width of a token.
"""

from __future__ import annotations

import logging
import math
import warnings

import onnx
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from x2localizer.config import DecoderSettings
from x2localizer.encoders.tile_decoder import LOOK_BACK

FAR = -1e4
"""Added to the logits of what is not there."""
TILE_M, DRIVE_M_S = 60.0, 12.0
"""How far apart two places of one moment may be, and how fast a car drives: the measure of what is plausible."""


def relative(xy_m: Tensor, age_s: Tensor) -> Tensor:
    """What the way between two places says, (..., 2) and (...,) -> (..., 6): how plausible it is in the time."""
    reach = TILE_M + DRIVE_M_S * age_s.clamp(min=0.0)
    share = xy_m / reach[..., None]
    length = (share.square().sum(-1) + 1e-6).sqrt()
    metres = (xy_m.square().sum(-1) + 1.0).log() / 10.0
    return torch.cat([
        share.clamp(-4.0, 4.0), length.clamp(max=8.0)[..., None], torch.exp(-length.square())[..., None],
        metres[..., None], (age_s.clamp(0.0, 60.0) / 10.0)[..., None],
    ], -1)  # fmt: skip


class _Attention(nn.Module):
    """Attention with an extra logit and an extra value for each pair, from how they lie to each other."""

    def __init__(self, width: int, heads: int, pair: int = 0) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.pair = nn.Sequential(nn.Linear(pair, width // 2), nn.GELU(), nn.Linear(width // 2, heads + width))
        self.none = nn.Parameter(torch.zeros(1, heads, 1, 1))
        """The logit of attending to nothing: what follows from no earlier choice."""

    def forward(self, tokens: Tensor, others: Tensor, there: Tensor, pairs: Tensor) -> Tensor:
        """(n, k, w), (n, p, w), (n, p), (n, k, p, pair) -> (n, k, w)."""
        n, k, w = tokens.shape
        p, h, d = others.shape[1], self.heads, w // self.heads
        query = self.query(tokens).reshape(n, k, h, d).transpose(1, 2)
        key = self.key(others).reshape(n, p, h, d).transpose(1, 2)
        value = self.value(others).reshape(n, p, h, d).transpose(1, 2)
        extra = self.pair(pairs)  # (n, k, p, h + w)
        logits = query @ key.transpose(2, 3) / math.sqrt(d) + extra[..., :h].permute(0, 3, 1, 2)
        logits = logits + FAR * (1.0 - there[:, None, None, :])
        weight = torch.softmax(torch.cat([logits, self.none.expand(n, h, k, 1)], -1), -1)[..., :-1]  # (n, h, k, p)
        own = extra[..., h:].reshape(n, k, p, h, d).permute(0, 3, 1, 2, 4)  # (n, h, k, p, d)
        mixed = weight @ value + (weight[..., None, :] @ own).squeeze(-2)
        out: Tensor = self.out(mixed.transpose(1, 2).reshape(n, k, w))
        return out


class _Block(nn.Module):
    """Tiles of a frame: among themselves, then with the past, then each by itself."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(3)])
        self.among, self.back = _Attention(width, heads, 6), _Attention(width, heads, 6)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(
        self, tiles: Tensor, there: Tensor, among: Tensor, past: Tensor, past_there: Tensor, back: Tensor
    ) -> Tensor:
        first = self.norms[0](tiles)
        tiles = tiles + self.among(first, first, there, among)
        tiles = tiles + self.back(self.norms[1](tiles), past, past_there, back)
        out: Tensor = tiles + self.mlp(self.norms[2](tiles))
        return out


class DecoderNet(nn.Module):
    """Earlier choices and the tiles of a frame -> log-probabilities of the tiles. Only relative places count."""

    def __init__(self, settings: DecoderSettings) -> None:
        super().__init__()
        width, heads = settings.width, settings.heads
        self.read_tile, self.read_choice = nn.Linear(3, width), nn.Linear(9, width)
        self.order = nn.Parameter(torch.zeros(len(LOOK_BACK), width))
        self.blocks = nn.ModuleList([_Block(width, heads) for _ in range(settings.depth)])
        self.norm, self.score = nn.LayerNorm(width), nn.Linear(width, 1)
        self.trust = nn.Parameter(torch.ones(()))
        """What the odds of a tile by itself count for."""

    def forward(self, past: Tensor, past_there: Tensor, tiles: Tensor, there: Tensor) -> Tensor:
        """(n, p, 5), (n, p), (n, k, 4), (n, k) -> (n, k)."""
        odds, similarity = tiles[..., 2], tiles[..., 3]
        best = (similarity + FAR * (1.0 - there)).amax(1, keepdim=True)
        tokens = self.read_tile(torch.stack([odds / 5.0, (similarity - best) * 10.0, best.expand_as(odds)], -1))
        choice = torch.cat([relative(past[..., :2], past[..., 2]), past[..., 3:4] / 5.0, past[..., 4:5],
                            past[..., 2:3] / 10.0], -1)  # fmt: skip
        memory = self.read_choice(choice) + self.order
        xy, now = tiles[..., :2], torch.zeros_like(odds)
        among = relative(xy[:, :, None] - xy[:, None], (now[:, :, None] + now[:, None]))
        back = relative(xy[:, :, None] - past[:, None, :, :2], now[:, :, None] + past[:, None, :, 2])
        for block in self.blocks:
            tokens = block(tokens, there, among, memory, past_there, back)
        logits = self.score(self.norm(tokens)).squeeze(-1) + self.trust * odds
        return F.log_softmax(logits + FAR * (1.0 - there), -1)


def to_onnx(net: DecoderNet, settings: DecoderSettings) -> onnx.ModelProto:
    """The graph of a decoder, for any number of memories and of tiles."""
    k, p = settings.tiles, len(LOOK_BACK)
    example = (torch.randn(3, p, 5), torch.ones(3, p), torch.randn(3, k, 4), torch.ones(3, k))
    n, tiles = torch.export.Dim("memories", min=1, max=1 << 20), torch.export.Dim("tiles", min=1, max=1 << 10)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            net.eval(), example, dynamo=True, verbose=False, output_names=["log_probability"],
            input_names=["past", "past_there", "tiles", "there"],
            dynamic_shapes={"past": {0: n}, "past_there": {0: n}, "tiles": {0: n, 1: tiles}, "there": {0: n, 1: tiles}},
        )  # fmt: skip
    assert program is not None
    proto: onnx.ModelProto = program.model_proto
    del proto.graph.value_info[:]
    for node in proto.graph.node:
        del node.metadata_props[:]  # the exporter stores paths of this machine there
        node.doc_string = ""
    return proto
