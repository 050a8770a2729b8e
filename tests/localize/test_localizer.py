"""The localizer on a world of coloured tiles that a stand-in bundle tells apart: finding, following, interruptions."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from helpers.gallery_files import PX, write_tiles
from x2localizer import geo
from x2localizer.config import (
    BackboneSettings,
    LocalizeSettings,
    ModelSettings,
    MotionSettings,
    TownSettings,
    from_overrides,
)
from x2localizer.encoders import Bundle, SetCodes, open_bundle
from x2localizer.errors import BundleError, ConfigError, GalleryError, UserError
from x2localizer.gallery import Gallery, index
from x2localizer.gallery.tiles import TileGrid
from x2localizer.localize import Localizer
from x2localizer.localize.belief import Belief, disc, moved, summed_around
from x2localizer.localize.calibrate import calibrate
from x2localizer.localize.confidence import NEVER_SURE, Confidence, choose_threshold, fit, reliability
from x2localizer.motion import step_kernels
from x2localizer.search import CirclePrior, Searcher
from x2localizer.types import Evidence, Fix, Frame, Image, Position, Region

X, Y, TILES = 160000, 200000, 30
MODEL = ModelSettings(
    backbone=BackboneSettings(width=24, depth=2, heads=2, patch=16), frame_height=32, frame_width=64, tile_px=PX, dim=64
)
FEATURES = np.random.default_rng(5).normal(0, 0.06, (3, 32))


class ColourBundle(Bundle):
    """Knows a place by its mean colour."""

    def _code(self, images: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        angles = images.mean((-3, -2)) @ FEATURES
        return np.asarray(np.concatenate([np.sin(angles), np.cos(angles)], -1) / np.sqrt(32), np.float32)

    def encode_frames(self, images: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        return self._code(images)

    def encode_tiles(self, images: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        return self._code(images)

    def encode_prefixes(self, images: npt.NDArray[np.uint8]) -> SetCodes:
        tokens = self._code(images)
        whole = tokens.mean(1)
        return SetCodes(whole / np.linalg.norm(whole, axis=-1, keepdims=True), tokens)

    encode_regions = encode_prefixes


@pytest.fixture(scope="module")
def colours() -> npt.NDArray[np.uint8]:
    """A colour for every tile."""
    return np.random.default_rng(1).integers(20, 236, (TILES, TILES, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    root = tmp_path_factory.mktemp("colours")
    Confidence((-6.0, 1.0, 1.6, 0.0, 0.0, 0.0, 0.0), 0.6, 10, "a test").save(root)
    return ColourBundle(root, MODEL, {}, "colours")


@pytest.fixture(scope="module")
def gallery(colours: npt.NDArray[np.uint8], bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Gallery:
    folder = tmp_path_factory.mktemp("world")
    write_tiles(folder / "a.tif", colours.repeat(PX, 0).repeat(PX, 1), X, Y, nodata=False)
    return index(folder / "a.tif", bundle, folder / "gallery", codes=("tiles", "regions"))


def _place(column: float, row: float) -> Position:
    lat, lon = geo.from_tile_coordinates(X + column, Y + row, 19)
    return Position(float(lat), float(lon))


def _drive(
    colours: npt.NDArray[np.uint8], seconds: range, start_s: float = 0.0, row: float = 8.5, noise: float = 2.0
) -> Iterator[tuple[Frame, Position]]:
    """Eastward along a row at about 10 m/s: a sixth of a tile per second."""
    rng = np.random.default_rng(seconds.start)
    for i, second in enumerate(seconds):
        column = 4.5 + second / 6.0
        shade = colours[int(row), int(column)] + rng.normal(0, noise, (32, 64, 3))
        image: Image = np.clip(shade + rng.normal(0, 8, (32, 64, 3)), 0, 255).astype(np.uint8)
        yield Frame(i, start_s + second, image), _place(column, row)


def _away(fix: Fix, truth: Position) -> float:
    assert fix.guess is not None
    return float(geo.distance_m(fix.guess.lat_deg, fix.guess.lon_deg, truth.lat_deg, truth.lon_deg))


def test_it_finds_and_follows_a_drive_across_regions(
    gallery: Gallery, bundle: Bundle, colours: npt.NDArray[np.uint8]
) -> None:
    for matching in ("path", "frame"):
        localizer = Localizer(gallery, bundle, LocalizeSettings(matching=matching))
        fixes = [(localizer.update(frame), truth) for frame, truth in _drive(colours, range(100))]
        away = [_away(fix, truth) for fix, truth in fixes]
        assert np.median(away) < 45
        assert np.mean(np.array(away) < 80.467) > 0.9
        assert fixes[-1][0].status == ("tracking" if matching == "path" else "lost")  # its confidence was not fitted
        assert len({fix.region for fix, _ in fixes}) > 2


def test_refreshes_come_with_the_first_keyframes_and_then_every_window(
    gallery: Gallery, bundle: Bundle, colours: npt.NDArray[np.uint8]
) -> None:
    def refreshed(**values: object) -> list[float]:
        localizer = Localizer(gallery, bundle, LocalizeSettings(**values))
        return [fix.time_s for frame, _ in _drive(colours, range(100)) if (fix := localizer.update(frame)).refreshed]

    assert refreshed(budget=4) == [0, 5, 10, 15, 35, 55, 75, 95]
    assert refreshed(budget=1, window_s=5.0) == list(range(0, 100, 5))
    assert refreshed(policy="once", budget=4) == [0, 5, 10, 15]
    assert refreshed(policy="once", budget=1) == [0]


def test_swrl_follows_where_once_is_left_behind(
    gallery: Gallery, bundle: Bundle, colours: npt.NDArray[np.uint8]
) -> None:
    shares = {}
    for policy in ("once", "swrl"):
        settings = LocalizeSettings(policy=policy, candidates=1, budget=2)
        localizer = Localizer(gallery, bundle, settings)
        late = [_away(localizer.update(f), t) < 80.467 for f, t in _drive(colours, range(120))][60:]
        shares[policy] = np.mean(late)
    assert shares["swrl"] > 0.8
    assert shares["once"] < 0.4


def test_after_an_interruption_it_starts_again_and_recovers(
    gallery: Gallery, bundle: Bundle, colours: npt.NDArray[np.uint8]
) -> None:
    localizer = Localizer(gallery, bundle)
    for frame, _ in _drive(colours, range(50)):
        localizer.update(frame)
    elsewhere = list(_drive(colours, range(100, 130), start_s=60.0, row=22.5))
    fixes = [(localizer.update(frame), truth) for frame, truth in elsewhere]
    assert fixes[0][0].refreshed
    assert np.mean([_away(fix, truth) < 80.467 for fix, truth in fixes[5:]]) > 0.9


def test_black_and_frozen_frames_are_lost_and_do_not_disturb(
    gallery: Gallery, bundle: Bundle, colours: npt.NDArray[np.uint8]
) -> None:
    localizer = Localizer(gallery, bundle)
    frames = [frame for frame, _ in _drive(colours, range(40))]
    for frame in frames[:30]:
        localizer.update(frame)
    black = localizer.update(Frame(30, 30.0, np.zeros((32, 64, 3), np.uint8)))
    assert black.status == "lost"
    assert black.position is None
    assert localizer.update(frames[31]).status == "tracking"
    frozen = [localizer.update(Frame(32 + i, 32.0 + i, frames[31].image)) for i in range(8)]
    assert frozen[-1].status == "lost"
    assert frozen[0].status != "lost"


def test_what_is_not_on_the_map_is_not_claimed(gallery: Gallery, bundle: Bundle) -> None:
    rng = np.random.default_rng(3)
    localizer = Localizer(gallery, bundle)
    sure = 0
    for second in range(60):  # every frame another colour: no path explains it
        shade = rng.integers(0, 256, 3) + rng.normal(0, 8, (32, 64, 3))
        fix = localizer.update(Frame(second, float(second), np.clip(shade, 0, 255).astype(np.uint8)))
        sure += fix.position is not None
    assert sure < 12


def test_a_bundle_without_calibration_is_never_sure(
    gallery: Gallery, bundle: Bundle, colours: npt.NDArray[np.uint8], tmp_path: Path
) -> None:
    plain = ColourBundle(tmp_path, MODEL, {}, "colours")
    localizer = Localizer(gallery, plain)
    fixes = [localizer.update(frame) for frame, _ in _drive(colours, range(50))]
    assert {fix.status for fix in fixes} == {"locating", "lost"}
    assert all(fix.position is None for fix in fixes)
    assert fixes[-1].guess is not None


def test_a_prior_restricts_the_search(gallery: Gallery, bundle: Bundle, colours: npt.NDArray[np.uint8]) -> None:
    centre = _place(25, 25)
    localizer = Localizer(gallery, bundle, prior=CirclePrior(centre, 300.0))
    for frame, _ in _drive(colours, range(12)):
        fix = localizer.update(frame)
        middle = geo.region_centre(fix.region)  # type: ignore[arg-type]
        assert float(geo.distance_m(middle.lat_deg, middle.lon_deg, centre.lat_deg, centre.lon_deg)) < 330


def test_frames_of_any_size_are_accepted(gallery: Gallery, bundle: Bundle, colours: npt.NDArray[np.uint8]) -> None:
    small, large = Localizer(gallery, bundle), Localizer(gallery, bundle)
    for frame, _ in _drive(colours, range(12)):
        big = Frame(frame.index, frame.time_s, frame.image.repeat(3, 0).repeat(5, 1))
        expected, fix = small.update(frame), large.update(big)
        assert fix.guess == expected.guess
        assert fix.view is not None
        assert fix.view.frame.image.shape == (32, 64, 3)
    for wrong in (np.zeros((10, 10), np.uint8), np.zeros((10, 10, 3), np.float32), np.zeros((0, 4, 3), np.uint8)):
        with pytest.raises(ValueError, match="RGB bytes"):
            large.update(Frame(0, 20.0, wrong))  # type: ignore[arg-type]


def test_a_gallery_of_another_bundle_is_refused(gallery: Gallery, bundle: Bundle) -> None:
    other = ColourBundle(bundle.root, MODEL, {}, "other colours")
    with pytest.raises(GalleryError, match="was made by the bundle colours"):
        Localizer(gallery, other)


def test_a_searcher_of_another_similarity_is_refused(gallery: Gallery, bundle: Bundle) -> None:
    with pytest.raises(ConfigError, match="ranks by s_mix"):
        Localizer(gallery, bundle, searcher=Searcher.over(gallery, "s_mix"))
    with pytest.raises(ConfigError, match="Did you mean 's_path'"):
        Localizer(gallery, bundle, LocalizeSettings(similarity="s_pth"))
    with pytest.raises(ConfigError, match="no refresh policy 'swlr'"):
        Localizer(gallery, bundle, LocalizeSettings(policy="swlr"))


def test_a_fix_says_everything(gallery: Gallery, bundle: Bundle, colours: npt.NDArray[np.uint8]) -> None:
    localizer = Localizer(gallery, bundle)
    for frame, _ in _drive(colours, range(12)):
        fix = localizer.update(frame)
        assert fix.view is not None
        assert isinstance(fix.evidence, Evidence)
        assert fix.view.region == fix.region
        assert fix.view.similarities.shape == fix.view.valid.shape == (13, 13)
        assert fix.confidence == localizer.confidence.probability(fix.evidence)
    blind = localizer.update(Frame(12, 12.0, np.zeros((32, 64, 3), np.uint8)))
    assert blind.view is None
    assert blind.evidence is None


@pytest.mark.parametrize(
    "change", ["budget=4", "window_s=10", "candidates=5", "keyframe_spacing_s=4", "frame_spacing_s=0.5", "sharpness=3",
               "recall_weight=1", "restart_share=0.2", "teleport_probability=0.1", "gap_s=4", "motion.kind=person",
               "matching=frame", "policy=once", "similarity=s_sum"],
)  # fmt: skip
def test_a_confidence_counts_only_for_the_settings_it_was_fitted_with(change: str, tmp_path: Path) -> None:
    fitted = Confidence((0.0,) * 7, 0.6, 10, "a test", settings=LocalizeSettings(), grid=(19, 3))
    fitted.save(tmp_path)
    assert Confidence.load(tmp_path, LocalizeSettings(), (19, 3)) == fitted
    assert Confidence.load(tmp_path, from_overrides(LocalizeSettings, [change]), (19, 3)) == NEVER_SURE
    assert Confidence.load(tmp_path, LocalizeSettings(), (18, 3)) == NEVER_SURE
    assert Confidence.load(tmp_path, LocalizeSettings(), (19, 2)) == NEVER_SURE


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-1e400"])
def test_a_confidence_that_is_no_number_is_damaged(value: str, tmp_path: Path) -> None:
    Confidence((0.5,) * 7, 0.6, 10, "a test").save(tmp_path)
    text = (tmp_path / "confidence.json").read_text()
    (tmp_path / "confidence.json").write_text(text.replace("0.5", value, 1))
    with pytest.raises(BundleError, match="damaged"):
        Confidence.load(tmp_path)


def _grid(x: int) -> TileGrid:
    """Two regions of 3 tiles side by side from column x on, which may lie across the antimeridian."""
    world = 1 << 19
    codes = np.random.default_rng(0).normal(size=(2, 5, 5, 1, 4)).astype(np.float32)
    regions = (Region(19, x % world, 200000, 3), Region(19, (x + 2) % world, 200000, 3))
    return TileGrid(regions, codes, np.ones((2, 5, 5), np.bool_))


def test_belief_does_not_know_the_antimeridian() -> None:
    """The same world, far from the antimeridian and across it, gives the same belief."""
    world = 1 << 19
    outcomes = []
    for x in (100_000, world - 2):
        belief = Belief(_grid(x), np.array([0.5, 0.4]), LocalizeSettings())
        rng = np.random.default_rng(1)
        matches = [belief.update(rng.normal(size=4).astype(np.float32), 1.0) for _ in range(4)]
        later = belief.carried_over(_grid(x + 1), np.array([0.4, 0.5]))
        outcomes.append((matches, later.mass, later.best(rng.normal(size=4).astype(np.float32))))
    (a, mass_a, last_a), (b, mass_b, last_b) = outcomes
    assert a == b
    np.testing.assert_allclose(mass_a, mass_b)
    assert last_a == last_b


def test_belief_moves_as_a_naive_loop_says() -> None:
    rng = np.random.default_rng(4)
    mass = rng.uniform(size=(8, 2, 5, 5))
    motion = MotionSettings()
    kernels, turning = step_kernels(motion, 29.0), 0.12
    expected = np.zeros_like(mass)
    for h in range(8):
        turned = (1 - turning) * mass[h] + turning / 2 * (mass[(h - 1) % 8] + mass[(h + 1) % 8])
        for c in range(2):
            for row in range(5):
                for column in range(5):
                    for dr in (-1, 0, 1):
                        for dc in (-1, 0, 1):
                            if 0 <= row + dr < 5 and 0 <= column + dc < 5:
                                share = kernels[h, dr + 1, dc + 1] * turned[c, row, column]
                                expected[h, c, row + dr, column + dc] += share
    np.testing.assert_allclose(moved(mass, 29.0, motion), expected)


def test_the_best_place_is_where_most_belief_lies_around() -> None:
    rng = np.random.default_rng(4)
    places, offsets = rng.uniform(size=(3, 7, 7)), disc(2.1)
    assert len(offsets) == 13
    found = summed_around(places, offsets)
    for c, row, column in np.ndindex(3, 7, 7):
        naive = sum(places[c, r, k] for r in range(7) for k in range(7) if (r - row) ** 2 + (k - column) ** 2 <= 2.1**2)
        assert found[c, row, column] == pytest.approx(naive)
    lone = np.zeros((1, 9, 9))
    lone[0, 1, 1] = 1.0  # one tile that has more than any other
    lone[0, 5:8, 5:8] = 0.3  # and many that have less, together
    assert int(summed_around(lone, offsets).argmax()) == 6 * 9 + 6


def test_evidence_for_a_guess_is_of_the_tile_that_holds_the_belief(
    gallery: Gallery, bundle: Bundle, colours: npt.NDArray[np.uint8]
) -> None:
    localizer = Localizer(gallery, bundle)
    frame, _ = next(_drive(colours, range(1)))
    localizer.update(frame)
    belief = localizer._state.belief
    assert belief is not None
    belief.mass[:] = 0.0
    belief.mass[:, 0, 6, 6] = 1 / 8  # all of it on one tile: every tile around it has as much around it
    code = bundle.encode_frames(frame.image[None])[0]
    match = belief.best(code)
    assert (match.candidate, match.row, match.column) == (0, 6.0, 6.0)
    assert match.similarity == pytest.approx(float(belief.grid.codes[0, 6, 6, 0] @ code))
    assert match.share == pytest.approx(1.0)


def test_a_second_takes_the_camera_along_its_heading() -> None:
    kernels = step_kernels(MotionSettings(), 29.0)
    np.testing.assert_allclose(kernels.sum((1, 2)), 1.0)
    offset = np.arange(-1, 2)
    for heading, (down, right) in enumerate([(-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1)]):
        mean = ((kernels[heading].sum(1) * offset).sum(), (kernels[heading].sum(0) * offset).sum())
        far = np.hypot(*mean) * 29.0
        assert far == pytest.approx(0.35 * 8 + 0.6 * 13, abs=0.01)
        assert mean[0] * down + mean[1] * right == pytest.approx(far / 29.0 * np.hypot(down, right))
    start = np.zeros((8, 1, 13, 13))
    start[0, 0, 10, 6] = 1.0
    for _ in range(10):
        start = moved(start, 29.0, MotionSettings())
    rows = (start.sum((0, 1, 3)) * np.arange(13)).sum() / start.sum()
    assert 6.5 < rows < 8.5  # 106 m to the north, less for turns


def test_confidence_is_fitted_to_what_happened() -> None:
    rng = np.random.default_rng(0)
    features = np.column_stack([np.ones(4000), rng.normal(size=4000)])
    chance = 1 / (1 + np.exp(-(0.5 + 2.0 * features[:, 1])))
    right = rng.uniform(size=4000) < chance
    weights = fit(features, right)
    assert weights == pytest.approx((0.5, 2.0), abs=0.2)
    p = 1 / (1 + np.exp(-(features @ np.array(weights))))
    for mean, share, count in reliability(p, right):
        if count > 100:
            assert abs(mean - share) < 0.1
    threshold = choose_threshold(p, right, 0.9)
    assert 0.89 < right[p >= threshold].mean() < 0.93
    assert choose_threshold(np.array([0.3, 0.4]), np.array([False, False])) == 1.0


@pytest.mark.slow
def test_calibration_goes_into_the_bundle_and_says_how_well_it_holds(tiny_bundle: Bundle, tmp_path: Path) -> None:
    root = tmp_path / "bundle"
    shutil.copytree(tiny_bundle.root, root)
    small = TownSettings(tiles=16, pixels_per_tile=64)
    lines = calibrate(root, range(5000, 5002), 2, tmp_path / "work", settings=small, seconds=30.0)
    found = Confidence.load(root)
    assert found.calibrated
    assert found.fitted_on == "120 frames of drives through towns 5000 to 5001"
    assert open_bundle(root).fingerprint == tiny_bundle.fingerprint
    assert sum(int(line.split("|")[3]) for line in lines[5:]) == 120
    with pytest.raises(UserError, match="too few drives"):
        calibrate(root, range(5000, 5001), 1, tmp_path / "work", settings=small, seconds=30.0)
    poor = Evidence(share=0.99, recent=found.least_recent - 0.01, lead=1.0, region=0.9, behind=0.0, frames=60)
    assert found.probability(poor) == 0.0
    (root / "confidence.json").write_text('{"weights": [1, 2], "threshold": 0.5, "least_frames": 1, "fitted_on": ""}')
    with pytest.raises(BundleError, match="damaged"):
        Confidence.load(root)
    calibrate(root, range(5000, 5002), 2, tmp_path / "work", settings=small, seconds=30.0)
    assert Confidence.load(root) == found


def test_a_path_keeps_the_region_around_its_last_guess(
    gallery: Gallery, bundle: Bundle, colours: npt.NDArray[np.uint8]
) -> None:
    """With a single candidate that a later search finds elsewhere, the path still has its own region."""
    table = gallery.regions
    localizer = Localizer(gallery, bundle, LocalizeSettings(candidates=1, budget=1, window_s=5.0))
    for frame, truth in _drive(colours, range(40)):
        fix = localizer.update(frame)
        row = table.nearest(fix.guess or truth)
        assert row is not None
        if fix.refreshed and frame.time_s > 0:
            assert 1 <= len(fix.candidates) <= 2
    away = _place(20.0, 20.0)
    row = table.nearest(away)
    assert row is not None
    assert geo.region_contains(table.region(row), away.lat_deg, away.lon_deg)
    assert table.nearest(Position(0.0, 0.0)) is None
    nowhere = np.zeros(len(table), np.bool_)
    assert table.nearest(away, nowhere) is None
