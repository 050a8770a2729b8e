"""The bundle that tests without torch use is the one its recipe makes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from helpers.tiny_bundle import TINY_MODEL, export_tiny_bundle
from x2localizer.encoders import Bundle, open_bundle


def test_exporting_the_recipe_again_gives_the_same_codes(
    tiny_bundle: Bundle, tiny_checkpoint: Path, tmp_path: Path
) -> None:
    export_tiny_bundle(tiny_checkpoint, tmp_path / "bundle")
    again = open_bundle(tmp_path / "bundle")
    assert tiny_bundle.model == again.model == TINY_MODEL
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 256, (2, 4, 32, 64, 3), np.uint8)
    tiles = rng.integers(0, 256, (2, 49, 32, 32, 3), np.uint8)
    np.testing.assert_allclose(tiny_bundle.encode_frames(frames[0]), again.encode_frames(frames[0]), atol=1e-5)
    np.testing.assert_allclose(tiny_bundle.encode_tiles(tiles[0]), again.encode_tiles(tiles[0]), atol=1e-5)
    for before, after in (
        (tiny_bundle.encode_prefixes(frames), again.encode_prefixes(frames)),
        (tiny_bundle.encode_regions(tiles), again.encode_regions(tiles)),
    ):
        np.testing.assert_allclose(before.whole, after.whole, atol=1e-5)
        np.testing.assert_allclose(before.tokens, after.tokens, atol=1e-5)
