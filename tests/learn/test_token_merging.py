"""Merging tokens: against a version with loops, and on towers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

from x2localizer.cli import app
from x2localizer.config import TrainSettings, load_config
from x2localizer.encoders import open_bundle
from x2localizer.errors import ConfigError
from x2localizer.learn.checkpoint import load_checkpoint, save_checkpoint
from x2localizer.learn.export import export_bundle
from x2localizer.learn.model import Model
from x2localizer.learn.token_merging import attend_by_size, merge_tokens

PREFIX = 2
SMALL = [
    "model.frame_height=32", "model.frame_width=64", "model.tile_px=32", "model.dim=16", "model.backbone.patch=8",
    "model.backbone.width=16", "model.backbone.depth=3", "model.backbone.heads=2",
]  # fmt: skip


def merged_plainly(tokens: Tensor, sizes: Tensor, keys: Tensor, count: int) -> list[tuple[float, list[float]]]:
    """What the patches of one picture become: (size, token) of each, sorted."""
    patches = [(float(s), t.double(), k.double()) for s, t, k in zip(sizes, tokens, keys, strict=True)][PREFIX:]
    ours, theirs = patches[0::2], patches[1::2]
    count = min(count, len(patches) // 2)
    likeness = [
        max((float(torch.cosine_similarity(mine[2], other[2], dim=0)), k) for k, other in enumerate(theirs))
        for mine in ours
    ]
    best = sorted(range(len(ours)), key=lambda i: -likeness[i][0])[:count]
    into: list[list[int]] = [[i for i in best if likeness[i][1] == k] for k in range(len(theirs))]
    out = [(ours[i][0], ours[i][1]) for i in range(len(ours)) if i not in best]
    for (size, token, _), guests in zip(theirs, into, strict=True):
        total = size + sum(ours[i][0] for i in guests)
        out.append((total, (size * token + sum(ours[i][0] * ours[i][1] for i in guests)) / total))
    return sorted((size, [round(float(v), 4) for v in token]) for size, token in out)


@pytest.mark.parametrize("patches", [2, 3, 7, 12])
@pytest.mark.parametrize("count", [0, 1, 3, 50])
def test_merging_is_what_a_plain_version_does(patches: int, count: int) -> None:
    generator = torch.Generator().manual_seed(patches * 100 + count)
    tokens, keys = (torch.randn(3, PREFIX + patches, 5, generator=generator) for _ in range(2))
    sizes = torch.randint(1, 4, (3, PREFIX + patches), generator=generator).float()
    out, grown = merge_tokens(tokens, sizes, keys, count, PREFIX)
    assert out.shape[1] == PREFIX + patches - min(count, patches // 2)
    assert torch.equal(out[:, :PREFIX], tokens[:, :PREFIX])
    assert torch.allclose(grown.sum(1), sizes.sum(1))
    for picture in range(3):
        found = sorted(
            (float(size), [round(float(v), 4) for v in token])
            for size, token in zip(grown[picture, PREFIX:], out[picture, PREFIX:], strict=True)
        )
        expected = merged_plainly(tokens[picture], sizes[picture], keys[picture], count)
        for (size, token), (plain_size, plain_token) in zip(found, expected, strict=True):
            assert size == pytest.approx(plain_size)
            assert token == pytest.approx(plain_token, abs=2e-4)


def test_a_lone_patch_stays_as_it_is() -> None:
    tokens, sizes = torch.randn(2, PREFIX + 1, 5), torch.ones(2, PREFIX + 1)
    out, grown = merge_tokens(tokens, sizes, tokens, 4, PREFIX)
    assert torch.equal(out, tokens)
    assert torch.equal(grown, sizes)


def test_a_merged_token_counts_as_often_as_it_stands_for() -> None:
    q, k, v = torch.randn(3, 1, 2, 4, 3, generator=torch.Generator().manual_seed(0)).unbind(0)
    twice = [0, 1, 1, 2, 3]
    expected = torch.nn.functional.scaled_dot_product_attention(q, k[:, :, twice], v[:, :, twice])
    found = attend_by_size(q, k, v, torch.tensor([[1.0, 2.0, 1.0, 1.0]]))
    assert torch.allclose(found, expected.transpose(1, 2).flatten(2), atol=1e-6)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    settings = load_config(TrainSettings, "train", "town", SMALL)
    path = tmp_path_factory.mktemp("merging") / "model.safetensors"
    save_checkpoint(path, Model(settings.model), settings, {"stage": "image"})
    return path


def test_pictures_of_one_colour_lose_nothing(checkpoint: Path) -> None:
    """Patches that are alike but for their place: merging few of them hardly changes the code, many change it more."""
    from x2localizer.learn.checkpoint import restore

    model = restore(load_checkpoint(checkpoint))
    tower = model.ground
    with torch.no_grad():
        tower.backbone.pos_embed.zero_()  # type: ignore[union-attr, operator]
        images = torch.full((2, 3, 32, 64), 0.3)
        plain = tower(images)
        tower.set_merging(6)
        assert torch.allclose(tower(images), plain, atol=1e-5)
        assert not torch.allclose(
            tower(torch.randn(2, 3, 32, 64, generator=torch.Generator().manual_seed(1))), plain, atol=1e-3
        )


def test_a_bundle_with_merged_tokens_is_checked_against_torch(checkpoint: Path, tmp_path: Path) -> None:
    full, _ = export_bundle(load_checkpoint(checkpoint), tmp_path / "full", parts=("frame", "tile"))
    merged, differences = export_bundle(
        load_checkpoint(checkpoint), tmp_path / "merged", parts=("frame", "tile"), merge=4
    )
    assert max(differences.values()) < 1e-4
    assert merged.fingerprint != full.fingerprint
    assert '"merged_tokens": 4' in (merged.root / "bundle.json").read_text()
    frames = np.random.default_rng(0).integers(0, 256, (5, 32, 64, 3), np.uint8)
    codes, plain = merged.encode_frames(frames), full.encode_frames(frames)
    assert np.allclose(np.linalg.norm(codes, axis=1), 1.0, atol=1e-5)
    assert not np.allclose(codes, plain, atol=1e-4)
    assert ((codes * plain).sum(1) > 0.7).all()


def test_the_tokens_of_a_bundle_are_merged_by_command(checkpoint: Path, tmp_path: Path) -> None:
    full, _ = export_bundle(load_checkpoint(checkpoint), tmp_path / "full", parts=("frame", "tile"))
    run = CliRunner().invoke(app, ["export", str(full.root), "--merge", "4", "--out", str(tmp_path / "merged")])
    assert run.exit_code == 0, run.output
    merged = open_bundle(tmp_path / "merged")
    assert merged.spec.parts == ("frame", "tile")
    frames = np.random.default_rng(0).integers(0, 256, (5, 32, 64, 3), np.uint8)
    assert not np.allclose(merged.encode_frames(frames), full.encode_frames(frames), atol=1e-4)


def test_families_that_cannot_merge_say_so(tmp_path: Path) -> None:
    settings = load_config(TrainSettings, "train", "town-dsm")
    with pytest.raises(ConfigError, match="cannot merge tokens"):
        Model(settings.model).ground.set_merging(4)
