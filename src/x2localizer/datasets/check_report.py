"""What a check of a dataset says, as text and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from dataclasses import field as default

EXAMPLES = 3
"""Places that are named with a finding."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong (level "error") or worth knowing ("note"), its count, and a few examples."""

    level: str
    what: str
    count: int
    examples: tuple[str, ...]


@dataclass(slots=True)
class CheckReport:
    """The result of a check.

    clips: a name for the clips and regions of a split; where it is the same, figures of two datasets can be compared.
    """

    root: str
    counts: dict[str, int] = default(default_factory=dict)
    clips: dict[str, str] = default(default_factory=dict)
    findings: list[Finding] = default(default_factory=list)

    @property
    def sound(self) -> bool:
        """Whether there are no errors."""
        return all(finding.level != "error" for finding in self.findings)

    def add(self, level: str, what: str, where: list[str]) -> None:
        """Add a finding if there are any places with it."""
        if where:
            self.findings.append(Finding(level, what, len(where), tuple(where[:EXAMPLES])))

    def to_json(self) -> str:
        """The report as JSON."""
        findings = [asdict(finding) for finding in self.findings]
        values = {"root": self.root, "sound": self.sound, "counts": self.counts, "clips": self.clips}
        return json.dumps({**values, "findings": findings})

    def to_text(self) -> str:
        """The report as text."""
        lines = [f"{self.root}"]
        lines += [f"  {name:<26}{count:>10,}" for name, count in self.counts.items()]
        lines += [f"  {split + ' clips are named':<26}{name:>18}" for split, name in self.clips.items()]
        for finding in sorted(self.findings, key=lambda f: f.level != "error"):
            lines.append(f"{finding.level}: {finding.what}: {finding.count:,}")
            lines += [f"    {example}" for example in finding.examples]
        lines.append("sound: nothing is wrong" if self.sound else "not sound: see the errors above")
        return "\n".join(lines)
