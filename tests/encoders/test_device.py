"""Where encoders run: names, what is missing, what takes over."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from x2localizer.cli import app
from x2localizer.encoders import choose_device, device, open_bundle
from x2localizer.encoders.device import AUTO, CPU, DEVICES, VARIABLE
from x2localizer.errors import DeviceError


def providers(*names: str) -> Callable[[], list[str]]:
    return lambda: [DEVICES[name].provider if name in DEVICES else name for name in names]


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")  # also restores what a command sets


@pytest.mark.parametrize(
    ("there", "chosen"),
    [
        (("cpu",), "cpu"),
        (("tensorrt", "cuda", "cpu"), "cuda"),
        (("coreml", "cpu"), "cpu"),
        (("directml", "cpu"), "directml"),
        (("openvino", "cpu"), "openvino"),
    ],
)
def test_auto_takes_what_was_installed_on_purpose(there: tuple[str, ...], chosen: str) -> None:
    found = choose_device("auto", providers(*there))
    assert found.name == chosen
    assert found.required == (chosen == "cpu")
    assert choose_device(None, providers(*there)) == found


@pytest.mark.parametrize("name", [name for name in DEVICES if name != "cpu"])
def test_a_missing_device_says_what_brings_it(name: str) -> None:
    assert choose_device(name, providers(name, "cpu")) == DEVICES[name]
    with pytest.raises(DeviceError) as problem:
        choose_device(name, providers("cpu", "AzureExecutionProvider"))
    assert f"'{name}'; it has: cpu." in problem.value.what
    assert f"pip install {DEVICES[name].package}" in problem.value.remedy
    assert DEVICES[name].needs in problem.value.remedy


def test_other_names(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DeviceError, match="Did you mean 'cuda'"):
        choose_device("cudaa", providers("cpu"))
    assert choose_device("CUDAExecutionProvider", providers("cuda", "cpu")) == DEVICES["cuda"]
    other = choose_device("MIGraphXExecutionProvider", providers("MIGraphXExecutionProvider", "cpu"))
    assert other.provider == "MIGraphXExecutionProvider"
    monkeypatch.setenv(VARIABLE, "cpu")
    assert choose_device(None, providers("cuda", "cpu")) == CPU
    assert set(AUTO) <= set(DEVICES)


@pytest.mark.filterwarnings("ignore:Specified provider")
def test_a_device_that_does_not_work_is_an_error_or_gives_way(caplog: pytest.LogCaptureFixture) -> None:
    frames = np.zeros((1, *open_bundle("eye").spec.frame_size, 3), np.uint8)
    with pytest.raises(DeviceError, match="does not work on this machine"):
        open_bundle("eye", device=DEVICES["cuda"]).encode_frames(frames)
    with caplog.at_level(logging.WARNING):
        codes = open_bundle("eye", device=replace(DEVICES["cuda"], required=False)).encode_frames(frames)
    assert "encoding on the CPU" in caplog.text
    np.testing.assert_array_equal(codes, open_bundle("eye", device="cpu").encode_frames(frames))


def test_batches_have_the_size_of_the_device_and_change_no_code() -> None:
    usual, px = open_bundle("eye", device="cpu"), 64
    small = open_bundle("eye", device=replace(CPU, pixels_at_once=3 * px * px, one_at_a_time=True))
    assert (usual.spec.tiles_at_once(), small.spec.tiles_at_once(), small.spec.tiles_at_once(49)) == (128, 3, 1)
    assert (usual.spec.frames_at_once(), usual.spec.frames_at_once(8)) == (64, 8)
    area = np.random.default_rng(1).integers(0, 256, (3 * px, 4 * px, 3), np.uint8)
    np.testing.assert_allclose(small.encode_area(area), usual.encode_area(area), atol=1e-5)


@pytest.mark.filterwarnings("ignore:Specified provider")
def test_the_command_line_names_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "available_providers", providers("cuda", "cpu"))
    picture = "docs/pictures/town-street.jpg"
    result = CliRunner().invoke(app, ["encode", picture, "--device", "cpu"])
    assert result.exit_code == 0
    assert "encoding on cpu (CPUExecutionProvider)" in result.stderr
    assert "cpu (CPUExecutionProvider)" in result.stdout
    monkeypatch.setenv(VARIABLE, "")
    result = CliRunner().invoke(app, ["encode", picture])
    assert "encoding on cuda (CUDAExecutionProvider)" in result.stderr
    result = CliRunner().invoke(app, ["encode", picture, "--device", "openvino"])
    assert isinstance(result.exception, DeviceError)
    assert "onnxruntime-openvino" in result.exception.remedy
