"""Pictures in other light: what is changed, and what never is."""

from __future__ import annotations

import numpy as np
import torch

from x2localizer.config import StageSettings
from x2localizer.learn.augment import MEAN, PATCHES, STD, augmented, relight, shaken, to_input


def pictures(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8)


def in_bytes(lit: torch.Tensor) -> torch.Tensor:
    return lit * STD + MEAN


def test_a_stage_says_how_pictures_are_varied() -> None:
    images = pictures(4, 16, 32)

    def of(**values: object) -> torch.Tensor:
        return augmented(np.random.default_rng(1), images, StageSettings.model_validate(values))

    torch.testing.assert_close(of(augment=False, vary=1.0), to_input(images))
    torch.testing.assert_close(of(), relight(np.random.default_rng(1), images))
    torch.testing.assert_close(of(vary=0.5), relight(np.random.default_rng(1), images, 0.5))
    torch.testing.assert_close(of(vary=0.5), of(vary=0.5))
    assert (of(vary=1.0) - of(vary=0.5)).abs().max() > 0.1


def test_pictures_of_a_set_share_their_light_and_stay_in_range() -> None:
    same = np.repeat(pictures(3, 1, 16, 32), 2, axis=1)
    lit = relight(np.random.default_rng(1), same)
    assert lit.shape == (3, 2, 3, 16, 32)
    torch.testing.assert_close(lit[:, 0], lit[:, 1])
    for strength in (0.0, 0.5, 1.0):
        bytes_ = in_bytes(relight(np.random.default_rng(2), same, strength))
        assert bytes_.min() > -1e-3
        assert bytes_.max() < 255 + 1e-3


def test_the_picture_is_still_there() -> None:
    """Varied or not, a picture resembles itself more than another one."""
    smooth = torch.nn.functional.interpolate(to_input(pictures(12, 4, 8)), (32, 64), mode="bilinear")
    images = in_bytes(smooth).clamp(0, 255).byte().movedim(1, -1).numpy()
    varied = shaken(np.random.default_rng(1), relight(np.random.default_rng(1), images, 1.0), 1.0)

    def codes(shown: torch.Tensor) -> torch.Tensor:
        flat = (shown - shown.mean((2, 3), keepdim=True)).flatten(1)
        normed: torch.Tensor = flat / flat.norm(dim=1, keepdim=True)
        return normed

    alike = codes(varied) @ codes(to_input(images)).t()
    assert (alike.argmax(1) == torch.arange(12)).all()


def test_parts_are_hidden_in_the_mean_colour() -> None:
    images = pictures(40, 24, 48)
    lit = in_bytes(relight(np.random.default_rng(1), images, 1.0))
    flat = [(picture[:, 1:, 1:] == picture[:, :-1, :-1]).all(0).float().mean() for picture in lit]
    share = torch.stack(flat)
    assert (share > 0.01).sum() > 20, "most have something hidden"
    assert share.max() < PATCHES / 9
    assert not (in_bytes(relight(np.random.default_rng(1), images)).diff(dim=-1) == 0).all(1).any((1, 2)).all()


def test_shaking_moves_by_no_more_than_an_eighth() -> None:
    across = torch.linspace(-1, 1, 64).expand(5, 3, 32, 64)
    moved = shaken(np.random.default_rng(1), across, 1.0)
    assert (moved - across).abs().max() <= 0.25 + 1e-5
    assert (moved - across).abs().max() > 0.02
    torch.testing.assert_close(shaken(np.random.default_rng(1), across, 0.0), across, atol=1e-5, rtol=0)
