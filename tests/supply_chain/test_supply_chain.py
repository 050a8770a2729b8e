"""Licences are read and judged, an audit that checked nothing is not taken for a clean one, locks name no host."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from supply_chain.__main__ import read_audit
from supply_chain.licences import dependencies, is_accepted, licences, normalised

ROOT = Path(__file__).parent.parent.parent
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))


@pytest.mark.parametrize(
    ("stated", "accepted"),
    [
        ("MIT", True), ("Apache Software License", True), ("BSD-3-Clause AND MIT", True), ("LGPLv3", True),
        ("GNU General Public License v3 (GPLv3)", False), ("AGPL-3.0", False), ("MIT AND GPL-3.0-only", False),
        ("not stated", False), ("LicenseRef-Proprietary", False), ("MPL-2.0 AND (Apache-2.0 OR MIT)", True),
    ],
)  # fmt: skip
def test_which_licences_are_accepted(stated: str, accepted: bool) -> None:
    assert is_accepted(stated) == accepted


def test_dependencies_of_the_package_have_licences_that_we_accept() -> None:
    found = {one.package: one for one in licences()}
    assert {"numpy", "av", "lancedb", "onnxruntime", "pydantic"} <= found.keys()
    assert "x2localizer" not in found
    assert [one for one in found.values() if not one.fine] == []


def test_dependencies_follow_extras() -> None:
    assert "fastapi" not in dependencies(extras=())
    assert normalised("Foo_.bar") == "foo-bar"


def test_an_audit_that_checked_nothing_is_not_clean() -> None:
    skipped = {"dependencies": [{"name": "a", "skip_reason": "not found"}]}
    assert read_audit(json.dumps(skipped), "No known vulnerabilities found")["state"].startswith("not checked")
    assert "cannot be reached" in read_audit("", "ConnectionError: no route")["state"]
    assert "not installed" in read_audit("", "No module named pip_audit")["state"]


def test_an_audit_lists_what_it_found() -> None:
    rows = [
        {"name": "a", "version": "1", "vulns": [{"id": "X-1", "fix_versions": ["2"]}]},
        {"name": "b", "version": "1", "vulns": []}, {"name": "c", "skip_reason": "local"},
    ]  # fmt: skip
    found = read_audit(json.dumps({"dependencies": rows}), "")
    assert found["state"] == "1 found in 2 packages, 1 unknown to the service"
    assert found["found"] == [{"package": "a", "version": "1", "id": "X-1", "fixed": ["2"]}]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_locks_pin_every_line_and_name_no_host(lock: Path) -> None:
    lines = [line for line in lock.read_text().splitlines() if line and not line.lstrip().startswith("#")]
    assert lines
    for line in lines:
        assert re.fullmatch(r"[a-z0-9.-]+==[0-9a-zA-Z.!+]+(\s*;.*)?(\s*#.*)?", line), line
    assert "://" not in lock.read_text()


@pytest.mark.parametrize(
    ("lock", "extras"),
    [("base", []), ("serve", ["serve", "programs"]), ("dev", ["train", "baselines", "docs", "cluster"])],
)
def test_locks_pin_what_the_project_asks_for(lock: str, extras: list[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = project["dependencies"] + [line for extra in extras for line in project["optional-dependencies"][extra]]
    lines = (ROOT / "requirements" / f"{lock}.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    for need in (Requirement(line) for line in asked):
        assert need.specifier.contains(pinned[normalised(need.name)]), need
