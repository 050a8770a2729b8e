from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from x2localizer import compiled
from x2localizer.town import aerial
from x2localizer.town.aerial import cast_shadow
from x2localizer.town.town import Town, paint_town

# -B: Python's own caches of the sources are not what this is about.
WRITES_OF_AN_IMPORT = """
import sys, numba, numpy, pyproj, rasterio, av, pydantic, gpxpy
events = []
def note(event, arguments):
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & 3  # O_WRONLY or O_RDWR
    if writes or event in ("os.mkdir", "os.remove", "os.rename", "os.rmdir", "shutil.rmtree"):
        events.append((event, arguments[0]))
sys.addaudithook(note)
import x2localizer.files, x2localizer.town.folder, x2localizer.town.town
print(events)
"""


def test_importing_the_kernels_writes_nothing() -> None:
    run = subprocess.run([sys.executable, "-B", "-c", WRITES_OF_AN_IMPORT], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_machine_code_is_kept_in_a_folder_named_after_the_sources(town: Town) -> None:
    paint_town(town)
    kernel: Any = cast_shadow
    package = Path(aerial.__file__).parent
    folder = compiled.cache_folder(package, compiled._sources(package))
    assert Path(kernel.stats.cache_path).is_relative_to(folder)
    assert list(folder.rglob("*cast_shadow*.nbi"))


def test_without_a_folder_to_write_to_the_cache_lasts_as_long_as_the_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = compiled.cache_folder.__wrapped__(tmp_path / "file", "sources")
    assert folder.is_dir()
    assert folder.parent == tmp_path
