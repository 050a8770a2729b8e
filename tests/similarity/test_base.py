"""Similarities as objects: what they need, and what an encoder can give them."""

from __future__ import annotations

import numpy as np
import pytest

from x2localizer.encoders import EncoderSpec
from x2localizer.similarity import Compared, similarities

FULL = EncoderSpec(64, 128, 64, 128)


def test_there_are_seven_and_each_has_its_name() -> None:
    assert similarities.names() == ["s_best", "s_f", "s_g", "s_half", "s_mix", "s_path", "s_sum"]
    assert all(similarities.get(name).name == name for name in similarities.names())


@pytest.mark.parametrize("name", similarities.names())
def test_an_encoder_suits_what_it_can_make(name: str) -> None:
    similarity = similarities.get(name)
    images = EncoderSpec(64, 128, 64, 128, parts=("frame", "tile"))
    sets = EncoderSpec(64, 128, 64, 128, parts=("prefix", "region"))
    wholes = EncoderSpec(64, 128, 64, 128, parts=("prefix", "region"), tokens=False)
    assert similarity.suits(FULL)
    assert similarity.suits(images) == (similarity.codes == "tiles")
    assert similarity.suits(sets) == (similarity.codes == "regions")
    assert similarity.suits(wholes) == (name == "s_g")


@pytest.mark.parametrize("name", similarities.names())
def test_no_similarity_falls_when_a_frame_and_a_tile_grow_more_alike(name: str) -> None:
    """What the default bound of a similarity rests on."""
    rng = np.random.default_rng(3)
    similarity = similarities.get(name)()
    s_tok, s_g = rng.uniform(-1, 1, (20, 4, 9)).astype(np.float32), rng.uniform(-1, 1, 20).astype(np.float32)
    more = s_tok + rng.uniform(0, 0.2, s_tok.shape).astype(np.float32)
    exact = similarity.score(Compared(s_tok, s_g, reach=1))
    if similarity.bounded_by == "best":
        more = more.max((1, 2))[:, None, None]
    assert (similarity.bound(Compared(more, s_g, reach=1)) >= exact - 1e-6).all()
