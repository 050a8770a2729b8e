"""Check that the base install and all it needs comes as wheels for ARM: python deploy/arm_wheels.py

Resolves the dependencies of pyproject.toml with pip for 64-bit ARM Linux (Raspberry Pi OS, Jetson, servers), installs
nothing, prints the wheels and exits with 1 if one is missing.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

PLATFORMS = [f"manylinux_2_{minor}_aarch64" for minor in range(28, 16, -1)] + ["manylinux2014_aarch64"]


def main(python: str = "3.11") -> int:
    """Print the wheels; returns the exit code."""
    root = Path(__file__).parents[1]
    needed = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        words = [word for platform in PLATFORMS for word in ("--platform", platform)]
        done = subprocess.run(
            [
                sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed",
                "--only-binary=:all:", "--python-version", python, "--target", folder, "--report", str(report), *words,
                *needed,
            ],
            check=False,
        )  # fmt: skip
        if done.returncode:
            return 1
        found = json.loads(report.read_text(encoding="utf-8"))["install"]
    for wheel in sorted(Path(item["download_info"]["url"]).name for item in found):
        print(wheel)
    print(f"{len(found)} wheels for Python {python} on 64-bit ARM Linux, none missing")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
