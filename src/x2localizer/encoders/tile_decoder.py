"""A temporal decoder ready to run: which of a frame's best tiles follows from the tiles chosen before?

    decoder.json    what it is: sizes, the encoder it was trained for, its training
    decoder.onnx    earlier choices and the tiles of a frame -> log-probabilities of the tiles

It is GAReT's TransRetriever in spirit, written anew: an autoregressive transformer over the top-K tiles of every frame.
Ours looks only at the past, and sees places relative to each other, so that it can follow a live camera anywhere.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from x2localizer.config import DecoderSettings, validate
from x2localizer.errors import BundleError
from x2localizer.types import Bools, Codes, Floats

FORMAT = 1
MANIFEST, GRAPH = "decoder.json", "decoder.onnx"
LOOK_BACK = (1, 2, 3, 5, 8, 12, 18, 26)
"""Which earlier choices the decoder sees, in frames before the present one: the latest closely, older ones sparsely."""
REMEMBERED = LOOK_BACK[-1]
TEMPERATURE = 0.05
"""At which exp(s / T) is the odds that a frame and a tile belong together: the temperature of stage 1."""


@dataclass(frozen=True, slots=True, eq=False)
class TileChoices:
    """The best tiles of each frame of s sequences of f frames, best first, k for each frame.

    xy_m: metres east and north of some origin, (s, f, k, 2).
    similarity: of the frame and the tile, (s, f, k).
    there: False where a frame has fewer tiles, or a sequence fewer frames, (s, f, k).
    times_s: of the frames, (s, f).
    """

    xy_m: Floats
    similarity: Codes
    there: Bools
    times_s: Floats

    def join(self, other: TileChoices) -> TileChoices:
        """The sequences of both, which have as many frames and tiles."""
        return TileChoices(
            np.concatenate([self.xy_m, other.xy_m]), np.concatenate([self.similarity, other.similarity]),
            np.concatenate([self.there, other.there]), np.concatenate([self.times_s, other.times_s]),
        )  # fmt: skip


def log_odds(similarity: Codes, there: Bools) -> Codes:
    """The log of each tile's share of its frame's odds, (..., k); -20 at least, and where there is no tile."""
    scaled = np.where(there, similarity / np.float32(TEMPERATURE), np.float32(-1e9))
    top = scaled.max(-1, keepdims=True)
    total = np.log(np.exp(scaled - top).sum(-1, keepdims=True))
    return np.asarray(np.maximum(scaled - top - total, -20.0), np.float32)


@dataclass(frozen=True)
class TileDecoder:
    """A decoder on ONNX Runtime. It belongs to one encoder: ``encoder`` is that one's fingerprint."""

    root: Path
    settings: DecoderSettings
    encoder: str
    training: dict[str, Any]
    threads: int = 0
    _sessions: list[ort.InferenceSession] = field(default_factory=list, repr=False, compare=False)

    def step(self, past: Codes, past_there: Bools, tiles: Codes, there: Bools) -> Codes:
        """Log-probabilities of a frame's tiles, (n, k), given what n memories hold.

        past: earlier choices, (n, 8, 5): metres east and north of the last choice, seconds ago, log odds, similarity.
        past_there: which of them there are, (n, 8).
        tiles: of the frame, (n, k, 4): metres east and north of the last choice, log odds, similarity.
        there: which of them there are, (n, k); at least one.
        """
        if not self._sessions:
            self._sessions.append(self._session())
        inputs = {
            "past": np.ascontiguousarray(past, np.float32), "past_there": past_there.astype(np.float32),
            "tiles": np.ascontiguousarray(tiles, np.float32), "there": there.astype(np.float32),
        }  # fmt: skip
        out: Codes = self._sessions[0].run(None, inputs)[0]
        return out

    def _session(self) -> ort.InferenceSession:
        options = ort.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = self.threads or os.cpu_count() or 1
        try:
            return ort.InferenceSession(self.root / GRAPH, options, providers=["CPUExecutionProvider"])
        except Exception as problem:  # ONNX Runtime has an error class for every occasion
            raise BundleError(f"{self.root / GRAPH} is missing or damaged.", "Train the decoder again.") from problem


def has_decoder(root: Path) -> bool:
    """Whether a folder holds a decoder."""
    return (root / MANIFEST).is_file()


def open_decoder(root: Path, encoder: str | None = None, *, threads: int = 0) -> TileDecoder:
    """Open a decoder by its folder; one that is damaged, or belongs to another encoder, is an error.

    encoder: the fingerprint of the encoder that it is to be used with.
    """
    path = root / MANIFEST
    if not path.is_file():
        raise BundleError(
            f"{root} has no temporal decoder.", "Train one: x2l train-decoder BUNDLE --data DATA --out DIR"
        )
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        version, own, graph = manifest["format"], str(manifest["encoder"]), str(manifest["graph"])
        training = dict(manifest["training"])
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise BundleError(f"{path} is damaged.", "Train the decoder again.") from problem
    if version != FORMAT:
        raise BundleError(f"{root} has format {version}, this version reads {FORMAT}.", "Train the decoder again.")
    if not (root / GRAPH).is_file() or graph_digest(root) != graph:
        raise BundleError(f"{root / GRAPH} is missing or damaged.", "Train the decoder again.")
    if encoder is not None and encoder != own:
        raise BundleError(
            f"The decoder {root} was trained for the encoder {own}, not for {encoder}.",
            "Train one for this bundle: x2l train-decoder BUNDLE --data DATA --out DIR",
        )
    return TileDecoder(root, validate(DecoderSettings, manifest["settings"]), own, training, threads)


def graph_digest(root: Path) -> str:
    """A short name for exactly this graph."""
    return hashlib.sha256((root / GRAPH).read_bytes()).hexdigest()[:16]
