"""``python -m supply_chain``: see ``--help``."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from supply_chain.licences import licences

AUDIT_WITHIN_S = 180.0


def main() -> int:
    """Check, print, and say by the exit code whether somebody has to look."""
    parser = argparse.ArgumentParser(prog="supply_chain", description="Licences, vulnerabilities, bill of materials.")
    parser.add_argument("--sbom", type=Path, help="file for the software bill of materials (CycloneDX JSON)")
    parser.add_argument("--json", type=Path, help="file for the summary")
    parser.add_argument("--offline", action="store_true", help="ask no vulnerability service")
    chosen = parser.parse_args()
    found = licences()
    strange = [one for one in found if not one.fine]
    print(f"licences: {len(found)} dependencies, {len(strange)} to look at")
    for one in strange:
        print(f"  {one.package} {one.version}: {one.stated}")
    audit: dict[str, Any] = {"state": "not asked"} if chosen.offline else vulnerabilities()
    print(f"vulnerabilities: {audit['state']}")
    for row in audit.get("found", []):
        fixed = ", ".join(row["fixed"]) or "no version yet"
        print(f"  {row['package']} {row['version']}: {row['id']}, fixed in {fixed}")
    if chosen.sbom:
        print(f"bill of materials: {bill_of_materials(chosen.sbom)}")
    if chosen.json:
        values = {"licences": len(found), "to_look_at": [one.package for one in strange], "audit": audit}
        chosen.json.write_text(json.dumps(values, indent=1) + "\n")
    return 1 if strange or audit.get("found") else 0


def vulnerabilities() -> dict[str, Any]:
    """Known vulnerabilities of what is installed; a service that cannot be reached is no failure, and is said."""
    command = [sys.executable, "-m", "pip_audit", "--progress-spinner", "off", "--format", "json", "--timeout", "10"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=AUDIT_WITHIN_S)
    except subprocess.TimeoutExpired:
        return {"state": "not checked: the vulnerability service did not answer in time"}
    return read_audit(done.stdout, done.stderr)


def read_audit(out: str, err: str) -> dict[str, Any]:
    """What pip-audit says. Packages that the service does not know were not checked, whatever its exit code is."""
    try:
        rows = json.loads(out)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = (err.strip().splitlines() or ["it said nothing"])[-1]
        if "No module named" in last:
            return {"state": "not checked: pip-audit is not installed"}
        return {"state": f"not checked: the vulnerability service cannot be reached ({last[:120]})"}
    checked = [row for row in rows if "skip_reason" not in row]
    found = [
        {"package": row["name"], "version": row["version"], "id": one["id"], "fixed": one.get("fix_versions", [])}
        for row in checked for one in row.get("vulns", [])
    ]  # fmt: skip
    if not checked:
        return {"state": f"not checked: the service knows none of the {len(rows)} packages (a mirror without one?)"}
    skipped = f", {len(rows) - len(checked)} unknown to the service" if len(checked) < len(rows) else ""
    return {"state": f"{len(found)} found in {len(checked)} packages{skipped}", "found": found}


def bill_of_materials(path: Path) -> str:
    """Write what is installed as CycloneDX; returns what happened."""
    command = [
        sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible", "--of", "JSON", "-o", str(path),
        sys.executable,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return f"not written: {(done.stderr.strip().splitlines() or ['it said nothing'])[-1][:160]}"
    return f"{len(json.loads(path.read_text())['components'])} components in {path}"


if __name__ == "__main__":
    sys.exit(main())
