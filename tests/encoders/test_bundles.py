"""The bundles that come with the package: whole, small enough, and able to tell places apart."""

from __future__ import annotations

import numpy as np
import pytest

from x2localizer.config import TownSettings
from x2localizer.encoders import open_bundle
from x2localizer.encoders.bundle import shipped
from x2localizer.errors import BundleError
from x2localizer.search import Searcher
from x2localizer.similarity import Query
from x2localizer.town.drive import draw_drive, open_film, region_bounds
from x2localizer.town.place import core_regions
from x2localizer.town.town import build_town, crop_region, paint_town


def test_the_shipped_bundles_are_whole_and_small() -> None:
    root = shipped("town")
    assert root is not None
    bundle = open_bundle("town")
    assert bundle.root == root
    assert bundle.training["stage"] == "progressive"
    assert "never seen any" in (root / "README.md").read_text(encoding="utf-8")
    assert sum(path.stat().st_size for path in root.parent.rglob("*")) < 25e6
    assert shipped("no") is None
    assert shipped("../town") is None
    with pytest.raises(BundleError, match="is not a bundle"):
        open_bundle("no")


@pytest.mark.slow
def test_the_town_bundle_tells_unseen_places_apart() -> None:
    bundle = open_bundle("town")
    m = bundle.model
    town = build_town(9100, TownSettings(tiles=23, pixels_per_tile=64))
    regions = core_regions(town.place, m.region_tiles)
    aerial = paint_town(town)
    n, t = m.region_tiles, m.tile_px
    pictures = [crop_region(town, aerial, region, t).reshape(n, t, n, t, 3).swapaxes(1, 2) for region in regions]
    code = bundle.encode_regions(np.stack(pictures).reshape(len(regions), n * n, t, t, 3))
    searcher = Searcher.of_regions("s_mix", code.whole, code.tokens)
    right = []
    for number, region in enumerate(regions):
        for k in range(2):
            drive = draw_drive(town, 100 * number + k, 35.0, region_bounds(town, region))
            if drive is not None:
                film = open_film(town, drive, m.frame_height, m.frame_width)
                frames = np.stack([film.image(5.0 * i) for i in range(8)])
                prefix = bundle.encode_prefixes(frames[None])
                best = searcher.search(Query(prefix.tokens[0], prefix.whole[0]), 1)
                right.append(int(best.rows[0]) == number)
    assert len(regions) == 9
    assert len(right) >= 14
    assert np.mean(right) > 0.5, right  # by chance 0.11
