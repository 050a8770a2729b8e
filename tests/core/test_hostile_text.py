"""Settings and manifests that are too large, too deep or absurd are clear errors."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from helpers.tiny_bundle import TINY_BUNDLE
from x2localizer.config import DatasetSettings, LocalizeSettings, TrackSettings, from_overrides, load_config
from x2localizer.encoders import open_bundle
from x2localizer.errors import BundleError, ConfigError
from x2localizer.files import parse_json, read_bounded, read_json
from x2localizer.localize.confidence import FILE, Confidence
from x2localizer.localize.track.confidence import FILE as TRACK_FILE
from x2localizer.localize.track.confidence import track_confidence


@pytest.mark.parametrize(
    "text",
    ["a = " + "[" * 50_000 + "]" * 50_000, "a = " + "9" * 100_000, "[a" + ".a" * 20_000 + "]", "x" * (2 << 20)],
    ids=["deep", "endless number", "deep key", "large"],
)
def test_hostile_toml_is_a_clear_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(ConfigError):
        load_config(DatasetSettings, "dataset", tmp_path / "a.toml")


@pytest.mark.parametrize("override", ["a=" + "[" * 50_000, "test.towns=" + "9" * 5000, "a." * 3000 + "a=1"])
def test_hostile_overrides_are_short_errors(override: str) -> None:
    with pytest.raises(ConfigError) as problem:
        from_overrides(DatasetSettings, [override])
    assert len(str(problem.value)) < 500


@pytest.mark.parametrize("override", ["most_poses=1000000000000", "frame_spacing_s=nan", "step_s=1e300", "off_map=inf"])
def test_absurd_settings_are_refused(override: str) -> None:
    with pytest.raises(ConfigError):
        from_overrides(TrackSettings, [override])
    with pytest.raises(ConfigError):
        from_overrides(LocalizeSettings, ["budget=1000000000"])


def test_json_is_bounded_in_size_and_depth(tmp_path: Path) -> None:
    assert parse_json('{"a": [1, {"b": null}]}') == {"a": [1, {"b": None}]}
    for depth in (40, 900, 100_000):
        with pytest.raises(ValueError, match="too deep"):
            parse_json("[" * depth + "]" * depth)
    assert parse_json('{"a": -9223372036854775808}') == {"a": -(2**63)}
    with pytest.raises(ValueError, match="too many digits"):
        parse_json('{"a": [1' + "0" * 400 + "]}")
    (tmp_path / "a.json").write_text("[" + "1," * 1000 + "1]")
    assert len(read_json(tmp_path / "a.json")) == 1001
    with pytest.raises(ValueError, match="larger than"):
        read_json(tmp_path / "a.json", 1000)
    with pytest.raises(ValueError, match="larger than"):
        read_bounded(Path("/dev/zero"), 1000)


@pytest.mark.parametrize(
    "change",
    [
        {"model": None}, {"model": [1]}, {"config": [1]}, {"config": {"objective": {"tau_f": float("nan")}}},
        {"capabilities": {"headings": -1}}, {"capabilities": {"headings": 10**9}}, {"training": None},
    ],
)  # fmt: skip
def test_a_bundle_with_absurd_values_is_a_clear_error(change: dict[str, object], tmp_path: Path) -> None:
    shutil.copytree(TINY_BUNDLE, tmp_path / "b")
    path = tmp_path / "b" / "bundle.json"
    values = {**json.loads(path.read_text()), **change}
    path.write_text(json.dumps({name: value for name, value in values.items() if value is not None}))
    with pytest.raises(BundleError, match="damaged"):
        open_bundle(tmp_path / "b")
    path.write_text("[" * 100_000)
    with pytest.raises(BundleError, match="damaged"):
        open_bundle(tmp_path / "b")


def test_a_bundle_whose_graphs_make_other_codes_is_a_clear_error(tmp_path: Path) -> None:
    import numpy as np

    shutil.copytree(TINY_BUNDLE, tmp_path / "b")
    path = tmp_path / "b" / "bundle.json"
    values = json.loads(path.read_text())
    values["model"]["dim"] = 24
    path.write_text(json.dumps(values))
    bundle = open_bundle(tmp_path / "b")
    with pytest.raises(BundleError, match="make codes of length 16"):
        bundle.encode_tiles(np.zeros((1, 32, 32, 3), np.uint8))


@pytest.mark.parametrize("weight", [-1e6, float("nan"), float("inf"), 10**400])
def test_a_confidence_with_absurd_weights_is_refused(weight: float, tmp_path: Path) -> None:
    Confidence((1.0,) * 7, 0.5).save(tmp_path)
    assert Confidence.load(tmp_path).calibrated
    for name, value in (("weights", [weight] * 7), ("threshold", weight), ("weights", 7)):
        values = {**json.loads((tmp_path / FILE).read_text()), name: value}
        (tmp_path / "bad").mkdir(exist_ok=True)
        (tmp_path / "bad" / FILE).write_text(json.dumps(values))
        with pytest.raises(BundleError, match="x2l calibrate"):
            Confidence.load(tmp_path / "bad")


@pytest.mark.parametrize(
    "change",
    [{"threshold": -3}, {"threshold_without_roads": float("nan")}, {"weights": [1e9] * 14}, {"threshold": 10**400}],
)
def test_a_confidence_of_tracking_with_absurd_numbers_is_refused(change: dict[str, object], tmp_path: Path) -> None:
    from x2localizer.encoders.bundle import shipped

    eye = shipped("eye")
    assert eye is not None
    shutil.copy(eye / TRACK_FILE, tmp_path)
    assert track_confidence(tmp_path, TrackSettings()).weights
    values = {**json.loads((tmp_path / TRACK_FILE).read_text()), **change}
    (tmp_path / TRACK_FILE).write_text(json.dumps(values))
    with pytest.raises(BundleError, match="x2l calibrate"):
        track_confidence(tmp_path, TrackSettings())
