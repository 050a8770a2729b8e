"""The temporal decoder: its beam against the plain one, its graph against torch, and that it learns a path."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from x2localizer.cli import app
from x2localizer.config import DecoderSettings, LocalizeSettings
from x2localizer.datasets.dataset import open_dataset
from x2localizer.encoders import Bundle
from x2localizer.encoders.tile_decoder import TileChoices, TileDecoder, log_odds, open_decoder
from x2localizer.errors import BundleError, ConfigError, DatasetError
from x2localizer.evaluate.page import page_text
from x2localizer.evaluate.rides import long_rides, ride_frames, split_gallery
from x2localizer.learn.decoder import DecoderNet
from x2localizer.learn.train_decoder import Lesson, check_graph, train_decoder
from x2localizer.localize.decoding import decode, decode_plainly
from x2localizer.localize.localizer import Localizer

SMALL = DecoderSettings(tiles=6, width=16, depth=1, heads=2, steps=150, batch=64, threads=1)


def _lesson(seed: int, sequences: int = 40, frames: int = 20, k: int = 6) -> Lesson:
    """Cars that drive straight at 10 m/s. One tile is near the car, at any rank; the others are anywhere."""
    rng = np.random.default_rng(seed)
    heading = rng.uniform(0, 2 * np.pi, sequences)
    steps = 10.0 * np.stack([np.cos(heading), np.sin(heading)], 1)[:, None]
    truth = rng.uniform(-2000, 2000, (sequences, 1, 2)) + steps * np.arange(frames)[:, None]
    xy = truth[:, :, None] + rng.uniform(-1500, 1500, (sequences, frames, k, 2))
    right = rng.integers(0, 3, (sequences, frames))
    near = truth + rng.normal(0, 15, truth.shape)
    np.put_along_axis(xy, np.broadcast_to(right[..., None, None], (sequences, frames, 1, 2)), near[:, :, None], 2)
    similarity = -np.sort(-rng.uniform(0.3, 0.45, (sequences, frames, k)), -1).astype(np.float32)
    times = np.broadcast_to(np.arange(frames, dtype=np.float64), (sequences, frames))
    return Lesson(TileChoices(xy, similarity, np.ones((sequences, frames, k), np.bool_), times), truth)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> TileDecoder:
    return train_decoder(SMALL, _lesson(0), _lesson(1), tmp_path_factory.mktemp("decoder"), "abc")


def test_it_learns_to_follow_a_path(trained: TileDecoder) -> None:
    metrics = trained.training["metrics"]
    assert metrics["possible"] > 99
    assert metrics["decoder"] > metrics["frame"] + 15
    fresh = _lesson(2)
    shares = decode(trained, fresh.choices)
    np.testing.assert_allclose(shares.sum(-1), 1.0, atol=1e-6)
    away = np.linalg.norm(fresh.choices.xy_m - fresh.truth_m[:, :, None], axis=-1) <= 80
    by_beam = np.take_along_axis(away, shares.argmax(-1)[..., None], -1)[:, 5:].mean()
    assert by_beam > away[:, 5:, 0].mean() + 0.2


def test_the_beam_equals_the_plain_one(trained: TileDecoder) -> None:
    lesson = _lesson(3, sequences=3, frames=30)
    rng = np.random.default_rng(0)
    there = rng.random(lesson.choices.there.shape) < 0.8
    there[0, 4] = False  # a frame without any tile
    there[2, 25:] = False  # a sequence that ends earlier
    choices = TileChoices(lesson.choices.xy_m, lesson.choices.similarity, there, lesson.choices.times_s)
    for beam in (1, 3, 8):
        fast, plain = decode(trained, choices, beam), decode_plainly(trained, choices, beam)
        np.testing.assert_allclose(fast, plain, atol=1e-4)
        assert not fast[0, 4].any()
        assert not fast[2, 25:].any()
        assert not fast[~there].any()


def test_only_the_past_counts_and_only_relative_places(trained: TileDecoder) -> None:
    lesson = _lesson(4, sequences=2, frames=12)
    whole = decode(trained, lesson.choices)
    c = lesson.choices
    begun = TileChoices(c.xy_m[:, :7], c.similarity[:, :7], c.there[:, :7], c.times_s[:, :7])
    np.testing.assert_allclose(decode(trained, begun), whole[:, :7], atol=1e-6)
    moved = TileChoices(c.xy_m + 123_456.0, c.similarity, c.there, c.times_s + 1000.0)
    np.testing.assert_allclose(decode(trained, moved), whole, atol=1e-4)


def test_the_graph_equals_torch(trained: TileDecoder) -> None:
    from safetensors.torch import load_file

    net = DecoderNet(SMALL)
    net.load_state_dict(load_file(trained.root / "decoder.safetensors"))
    assert check_graph(net.eval(), trained, n=9) < 1e-3
    torch.nn.init.constant_(net.trust, 5.0)
    assert check_graph(net, trained) > 1e-2


def test_log_odds_are_shares() -> None:
    odds = log_odds(np.array([[0.5, 0.45, 0.4]], np.float32), np.array([[True, True, False]]))
    np.testing.assert_allclose(np.exp(odds[0, :2]), [1 / (1 + np.exp(-1)), 1 / (1 + np.exp(1))], rtol=1e-4)
    assert odds[0, 2] == -20


def test_a_decoder_is_for_one_encoder_and_damage_is_noticed(trained: TileDecoder, tmp_path: Path) -> None:
    assert open_decoder(trained.root, "abc").settings == SMALL
    with pytest.raises(BundleError, match="trained for the encoder abc"):
        open_decoder(trained.root, "another")
    with pytest.raises(BundleError, match="no temporal decoder"):
        open_decoder(tmp_path)
    for name in ("decoder.json", "decoder.onnx"):
        (tmp_path / name).write_bytes((trained.root / name).read_bytes())
    (tmp_path / "decoder.onnx").write_bytes(b"no graph")
    with pytest.raises(BundleError, match=r"decoder.onnx is missing or damaged"):
        open_decoder(tmp_path)
    (tmp_path / "decoder.json").write_text("{}")
    with pytest.raises(BundleError, match=r"decoder.json is damaged"):
        open_decoder(tmp_path)


def test_nothing_to_learn_is_an_error(tmp_path: Path) -> None:
    lesson = _lesson(0, sequences=2)
    with pytest.raises(DatasetError, match="nothing to learn"):
        train_decoder(SMALL, Lesson(lesson.choices, lesson.truth_m + 1e5), lesson, tmp_path, "abc")


@pytest.fixture(scope="module")
def from_command_line(tiny_dataset: Path, tiny_bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("command-line")
    words = ["train-decoder", str(tiny_bundle.root), "--data", str(tiny_dataset), "--out", str(folder / "decoder")]
    words += ["--work", str(folder / "work"), "--set", "steps=6", "--set", "threads=1", "--set", "width=8"]
    run = CliRunner().invoke(app, [*words, "--set", "depth=1"])
    assert run.exit_code == 0, (run.output, run.exception)
    assert "of the validation frames within 80 m" in run.output
    return folder


def test_frames_are_localized_by_all_matchings(
    from_command_line: Path, tiny_dataset: Path, tiny_bundle: Bundle, tmp_path: Path
) -> None:
    words = ["evaluate", str(tiny_bundle.root), "--protocol", "fine", "--data", str(tiny_dataset), "--split", "val"]
    words += ["--work", str(from_command_line / "work"), "--decoder", str(from_command_line / "decoder")]
    run = CliRunner().invoke(app, [*words, "--out", str(tmp_path), "--budgets", "8,1,4"])
    assert run.exit_code == 0, (run.output, run.exception)
    wrong = CliRunner().invoke(app, [*words, "--budgets", "1,two"])
    assert "not a list of budgets" in str(wrong.exception)
    values = json.loads((tmp_path / "results.json").read_text())
    rows = values["rows"]
    page = page_text({"decoding": values})
    assert "--decoder decoders/town --data data/tiny --split val`" in page
    assert "| grid | SWRL | path |" in page
    kinds = {(row["matching"], row["gallery"], row["budget"]) for row in rows}
    assert {("decoder", "gps", 1), ("decoder", "grid", 8), ("path", "grid", 8), ("frame", "gps", 4)} <= kinds
    assert not any(kind[:2] == ("path", "gps") for kind in kinds)
    assert {row["budget"] for row in rows} == {1, 4, 8}
    for row in rows:  # all matchings see the same tiles
        same = [r for r in rows if all(r[key] == row[key] for key in ("gallery", "budget", "refresh"))]
        assert len({r["r_all"] for r in same}) == 1
    assert "| matching |" in (tmp_path / "table.md").read_text()
    other = CliRunner().invoke(app, [*words[:1], "town", *words[2:]])
    assert "trained for none of these models" in str(other.exception)


def test_the_localizer_follows_a_drive_by_a_decoder_across_searches(
    from_command_line: Path, tiny_dataset: Path, tiny_bundle: Bundle, trained: TileDecoder
) -> None:
    data = open_dataset(tiny_dataset)
    gallery = split_gallery(data, "test", tiny_bundle, from_command_line / "work", lambda *_: None, ("tiles",))
    ride = long_rides(data, "test")[0]
    decoder = open_decoder(from_command_line / "decoder", tiny_bundle.fingerprint)
    localizer = Localizer(gallery, tiny_bundle, LocalizeSettings(matching="decoder"), decoder=decoder)
    fixes = [localizer.update(frame) for frame, _ in zip(ride_frames(data, ride), range(60), strict=False)]
    assert sum(fix.refreshed for fix in fixes) > 2
    assert all(fix.guess is not None for fix in fixes)
    assert all(fix.status != "tracking" for fix in fixes)  # nobody calibrated it
    with pytest.raises(BundleError, match="no temporal decoder"):
        Localizer(gallery, tiny_bundle, LocalizeSettings(matching="decoder"))
    with pytest.raises(ConfigError, match="another encoder"):
        Localizer(gallery, tiny_bundle, LocalizeSettings(matching="decoder"), decoder=trained)
    frame = next(ride_frames(data, ride))
    for matching in ("path", "frame"):  # others do not use it
        settings = LocalizeSettings.model_validate({"matching": matching})
        with_decoder, without = (Localizer(gallery, tiny_bundle, settings, decoder=d) for d in (decoder, None))
        assert with_decoder.update(frame).guess == without.update(frame).guess


def test_an_encoder_without_a_folder_needs_a_decoder(tiny_dataset: Path, tiny_bundle: Bundle, tmp_path: Path) -> None:
    class Wrapped:
        """The same encoder, not as a bundle."""

        def __getattr__(self, name: str) -> object:
            return getattr(tiny_bundle, name)

    gallery = split_gallery(open_dataset(tiny_dataset), "val", tiny_bundle, tmp_path, lambda *_: None, ("tiles",))
    with pytest.raises(ConfigError, match="needs one"):
        Localizer(gallery, Wrapped(), LocalizeSettings(matching="decoder"))  # type: ignore[arg-type]


def test_the_bench_compares_the_beam_with_its_twin(trained: TileDecoder) -> None:
    run = CliRunner().invoke(app, ["bench", "decoder", str(trained.root), "--clips", "2", "--json"])
    values = json.loads(run.output)
    assert values["largest_difference"] < 1e-4
    assert values["tiles"] == 6
    assert values["speedup"] == pytest.approx(values["plain_ms"] / values["batched_ms"])
