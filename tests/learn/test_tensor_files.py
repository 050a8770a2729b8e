"""Files of weights that others wrote: numbers of numpy beside the weights are read, code is not run."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from x2localizer.errors import CheckpointError
from x2localizer.learn.tensor_files import read_tensors


@pytest.mark.parametrize("value", [np.float64(1), np.float32(1), np.int64(1), np.bool_(True)])
def test_a_number_of_numpy_beside_the_weights_does_no_harm(value: object, tmp_path: Path) -> None:
    torch.save({"state_dict": {"a": torch.ones(2)}, "best_acc1": value}, tmp_path / "w.pth")
    assert list(read_tensors(tmp_path / "w.pth")) == ["a"]


def test_a_number_that_an_older_numpy_wrote_is_read(tmp_path: Path) -> None:
    torch.save({"state_dict": {"a": torch.ones(2)}, "best_acc1": np.float64(3)}, tmp_path / "new.pth")
    with zipfile.ZipFile(tmp_path / "new.pth") as new, zipfile.ZipFile(tmp_path / "old.pth", "w") as old:
        for name in new.namelist():
            old.writestr(name, new.read(name).replace(b"numpy._core.multiarray", b"numpy.core.multiarray"))
    assert list(read_tensors(tmp_path / "old.pth")) == ["a"]


class _Runs:
    def __init__(self, call: object, *arguments: object) -> None:
        self.call, self.arguments = call, arguments

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return self.call, self.arguments


@pytest.mark.parametrize(
    "call", [(print, "ran"), (eval, "print('ran')"), (np.load, "x.npy", None, True), (np.frombuffer, b"12345678")]
)
def test_a_file_that_wants_to_run_code_is_refused(
    call: tuple[object, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = {"state_dict": {"a": torch.ones(2)}, "best_acc1": _Runs(*call)}
    torch.save(content, tmp_path / "new.pth")
    torch.save(content, tmp_path / "legacy.pth", _use_new_zipfile_serialization=False)
    for name in ("new.pth", "legacy.pth"):
        with pytest.raises(CheckpointError, match="could run code"):
            read_tensors(tmp_path / name)
    assert "ran" not in capsys.readouterr().out


def test_an_object_hidden_in_a_number_of_numpy_is_refused(tmp_path: Path) -> None:
    scalar = np.float64(0).__reduce__()[0]
    inner = pickle.dumps(_Runs(print, "ran"), protocol=2)
    content = {"a": torch.ones(2), "b": _Runs(scalar, np.dtype("O"), inner)}
    torch.save(content, tmp_path / "w.pth")
    with pytest.raises(CheckpointError):
        read_tensors(tmp_path / "w.pth")


def test_weights_that_are_not_weights_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save({"a": _Runs(print, "this must not run")}, tmp_path / "evil.pth")
    (tmp_path / "empty.pth").write_bytes(b"")
    (tmp_path / "text.safetensors").write_text("hello")
    torch.save([1, 2], tmp_path / "list.pth")
    for name in ("evil.pth", "empty.pth", "text.safetensors", "list.pth", "absent.pth"):
        with pytest.raises(CheckpointError):
            read_tensors(tmp_path / name)
    assert "must not run" not in capsys.readouterr().out
