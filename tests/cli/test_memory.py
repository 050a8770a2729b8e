"""A command that runs out of memory says so, by whichever error it learns of it."""

from __future__ import annotations

import pytest

from x2localizer import cli
from x2localizer.encoders import Bundle, open_bundle
from x2localizer.errors import lacks_memory


@pytest.mark.parametrize(
    "problem",
    [
        MemoryError(), RuntimeError("std::bad_alloc"), RuntimeError("can't start new thread"),
        ImportError("x.so: failed to map segment from shared object"),
    ],
)  # fmt: skip
def test_every_way_to_run_out_of_memory_is_named(
    problem: Exception, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: object) -> None:
        raise problem

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert "There is not enough memory." in capfd.readouterr().err


def test_other_errors_are_not_taken_for_it() -> None:
    assert not lacks_memory(ValueError("a segment of the road"))


def test_a_bundle_is_not_called_damaged_for_lack_of_memory(
    tiny_bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("Failed to allocate memory for requested buffer of size 9")

    monkeypatch.setattr("x2localizer.encoders.bundle.ort.InferenceSession", fail)
    import numpy as np

    with pytest.raises(MemoryError):
        open_bundle(tiny_bundle.root).encode_frames(np.zeros((1, 32, 64, 3), np.uint8))
