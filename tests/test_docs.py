"""What the docs show works: every Python block runs, every command exists."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command

from x2localizer import __version__, index, open_bundle
from x2localizer.cli import app
from x2localizer.config import TownSettings
from x2localizer.evaluate.page import page_of
from x2localizer.town.folder import save_drive, save_town
from x2localizer.town.town import build_town

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
NOT_PAGES = {"results/notes.md", *(path.relative_to(DOCS).as_posix() for path in DOCS.glob("results/*/table.md"))}
"""Parts of other pages."""
SITE_PAGES = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} - NOT_PAGES
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *(DOCS / name for name in sorted(SITE_PAGES)),
]
BLOCKS = [
    (page.name, number, block)
    for page in PAGES
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))
]
COMMANDS = sorted({
    (page.name, tuple(match.split()))
    for page in PAGES
    for match in re.findall(r"\bx2l((?: [a-z]+){1,2})\b", page.read_text(encoding="utf-8"))
})  # fmt: skip


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory, tiny_dataset: Path) -> Path:
    """The files that the docs speak of."""
    folder = tmp_path_factory.mktemp("docs")
    town = build_town(5, TownSettings(tiles=16, pixels_per_tile=64))
    save_town(town, folder / "town")
    save_drive(town, folder / "drive", 1, 12.0, fps=2.0, height=96, width=160)
    (folder / "town" / "aerial.tif").rename(folder / "city.tif")
    (folder / "drive" / "drive.mp4").rename(folder / "ride.mp4")
    (folder / "drive" / "drive.gpx").rename(folder / "ride.gpx")
    index(folder / "city.tif", open_bundle("eye"), folder / "city-gallery")
    (folder / "wheel.csv").write_text("time_s,speed_m_s\n" + "".join(f"{t},10\n" for t in range(20)))
    (folder / "gyro.csv").write_text("time_s,yaw_rate_deg_s\n" + "".join(f"{t},3\n" for t in range(30)))
    shutil.copy(folder / "town" / "roads.geojson", folder / "roads.geojson")
    (folder / "drive.csv").write_text(
        "time_s,speed_m_s,yaw_rate_deg_s\n" + "".join(f"{t},10,{9 if t % 20 < 10 else 0}\n" for t in range(40))
    )
    (folder / "data").mkdir()
    (folder / "data" / "quick").symlink_to(tiny_dataset)
    return folder


@pytest.mark.parametrize(("page", "number", "block"), BLOCKS, ids=[f"{page}-{number}" for page, number, _ in BLOCKS])
def test_python_in_the_docs_runs(
    page: str, number: int, block: str, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workspace)
    names: dict[str, object] = {}
    exec(compile(block, f"{page}, block {number}", "exec"), names)
    for name in ("image", "tile", "frame", "aerial"):
        value = names.get(name)
        if isinstance(value, np.ndarray):
            assert value.dtype == np.uint8
            assert value.ndim == 3


@pytest.mark.parametrize(("page", "words"), COMMANDS, ids=[f"{page}-{'-'.join(words)}" for page, words in COMMANDS])
def test_commands_in_the_docs_exist(page: str, words: tuple[str, ...]) -> None:
    command = get_command(app)
    for word in words:
        commands = getattr(command, "commands", None)
        if commands is None:
            return  # the rest are arguments
        assert word in commands, f"{page} speaks of x2l {' '.join(words)}"
        command = commands[word]


def test_options_in_the_docs_exist() -> None:
    checked = 0
    for page in PAGES:
        for line in re.findall(r"^x2l .*$", page.read_text(encoding="utf-8"), re.MULTILINE):
            command, words = get_command(app), line.split()[1:]
            while words and words[0] in getattr(command, "commands", {}):
                command = command.commands[words.pop(0)]  # type: ignore[attr-defined]
            known = {option for p in command.params for option in (*p.opts, *p.secondary_opts)}
            for word in words:
                if word.startswith("--"):
                    assert word in known, f"{page.name}: {line}"
                    checked += 1
    assert checked > 10


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    nav = config[config.index("\nnav:") : config.index("\ntheme:")]
    assert set(re.findall(r": (\S+\.md)$", nav, re.MULTILINE)) == SITE_PAGES


def test_pages_that_include_a_file_name_one_that_exists() -> None:
    included = [
        name
        for page in sorted(SITE_PAGES)
        for name in re.findall(r"<!-- include (\S+) -->", (DOCS / page).read_text(encoding="utf-8"))
    ]
    assert sorted(included) == ["CHANGELOG.md", "CONTRIBUTING.md", "README.md"]
    assert all((ROOT / name).is_file() for name in included)


def test_the_version_is_the_same_everywhere() -> None:
    assert re.findall(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE) == [
        __version__
    ]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\S+)", changelog, re.MULTILINE)[0] == __version__
    assert 'dynamic = ["version"]' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_benchmark_page_is_made_of_the_results_and_of_nothing_else() -> None:
    results = ROOT / "docs" / "results"
    assert (ROOT / "docs" / "benchmark.md").read_text(encoding="utf-8") == page_of(results)
    found = json.loads((results / "coarse" / "results.json").read_text(encoding="utf-8"))
    assert found["split"] == "test"
    assert found["gallery"] >= 400


def test_figures_in_the_readme_are_the_measured_ones() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = json.loads((ROOT / "docs" / "results" / "coarse-bundle" / "results.json").read_text(encoding="utf-8"))
    ours = {(row["run"], row["similarity"], row["budget"]): f"{row['r1']:.1f}%" for row in found["rows"]}
    kinds = (("town", "s_mix"), ("town", "s_path"), ("eye", "s_path"))
    told = [ours[run, kind, budget] for run, kind in kinds for budget in (1, 8)]
    told += [f"{found['videos']:,} videos", f"{found['gallery']} regions"]
    drives = json.loads((ROOT / "docs" / "results" / "long-range-today" / "results.json").read_text(encoding="utf-8"))
    swrl = drives["rows"][0]
    told += [f"{swrl[name]:.1f}%" for name in ("within", "sure", "sure_within")]
    tracked = json.loads((ROOT / "docs" / "results" / "tracking" / "results.json").read_text(encoding="utf-8"))
    rows = {row["arm"]: row for row in tracked["rows"]}
    for arm in ("video, tiles and roads", "sensors, tiles and roads"):
        every, day, night = (rows[arm][part] for part in ("every", "day", "night"))
        shares = [every["within"]["mean"], day["settled"]["mean"], night["settled"]["mean"], every["sure"]]
        told += [f"{share:.1f}%" for share in (*shares, every["sure_right"])] + [f"{every['off_map']:.2f}%"]
    found = json.loads((ROOT / "docs" / "results" / "tracking-eye" / "results.json").read_text(encoding="utf-8"))
    every, day, night = (found["rows"][0][part] for part in ("every", "day", "night"))
    means = (every["within"], day["early"], day["settled"], night["settled"])
    told += [f"{share:.1f}%" for share in (*(mean["mean"] for mean in means), every["sure"], every["sure_right"])]
    told += [f"{part['off_map']:.2f}%" for part in (day, night)] + [f"{every['first_sure_s']:.0f} s"]
    night_clips = json.loads((ROOT / "docs" / "results" / "coarse-night" / "results.json").read_text(encoding="utf-8"))
    told += [
        f"at night {row['r1']:.1f}%" for row in night_clips["rows"]
        if (row["run"], row["similarity"], row["budget"]) == ("eye", "s_path", 8)
    ]  # fmt: skip
    for value in told:
        assert value in readme, value


def test_tests_that_the_docs_name_exist() -> None:
    text = (DOCS / "reliability.md").read_text(encoding="utf-8")
    named = re.findall(r"`([a-z_/]+\.py)::(test_\w+)`", text)
    assert len(named) > 50
    tests = ROOT / "tests"
    missing = [name for file, name in named if f"def {name}(" not in (tests / file).read_text(encoding="utf-8")]
    assert missing == []
