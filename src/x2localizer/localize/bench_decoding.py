"""How long temporal decoding takes: for a live camera, and for many clips side by side against the plain twin."""

from __future__ import annotations

import numpy as np

from x2localizer.encoders.tile_decoder import TileChoices, TileDecoder
from x2localizer.localize.decoding import BEAM, decode, decode_plainly
from x2localizer.metrics import fastest_s
from x2localizer.types import Floats


def bench_decoding(decoder: TileDecoder, clips: int = 16, frames: int = 36, times: int = 3) -> dict[str, object]:
    """Milliseconds per frame of one camera and of many clips, by the batched beam and by the plain one."""
    choices = noise(clips, frames, decoder.settings.tiles)
    one = TileChoices(choices.xy_m[:1], choices.similarity[:1], choices.there[:1], choices.times_s[:1])
    few = TileChoices(choices.xy_m[:2], choices.similarity[:2], choices.there[:2], choices.times_s[:2])
    live = fastest_s(lambda: decode(decoder, one), times) / frames
    batched = fastest_s(lambda: decode(decoder, choices), times) / frames / clips
    plain = fastest_s(lambda: decode_plainly(decoder, few), 1) / frames / 2
    difference = float(np.abs(decode(decoder, few) - decode_plainly(decoder, few)).max())
    return {
        "beam": BEAM, "tiles": decoder.settings.tiles, "clips": clips, "live_ms": 1000 * live,
        "batched_ms": 1000 * batched, "plain_ms": 1000 * plain, "speedup": plain / batched,
        "largest_difference": difference,
    }  # fmt: skip


def noise(clips: int, frames: int, tiles: int) -> TileChoices:
    """Tiles anywhere within a kilometre."""
    rng = np.random.default_rng(0)
    shape = (clips, frames, tiles)
    similarity = -np.sort(-rng.uniform(0.2, 0.9, shape), -1).astype(np.float32)
    seconds: Floats = np.broadcast_to(np.arange(frames, dtype=np.float64), shape[:2])
    return TileChoices(rng.uniform(-500, 500, (*shape, 2)), similarity, np.ones(shape, np.bool_), seconds)
