"""Licences of the package's dependencies, by what their metadata state."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement

EXTRAS = ("serve", "programs", "train")
"""Those that are shipped; what only tests and docs use reaches no user."""
ACCEPTED = (
    "apache", "mit", "bsd", "isc", "psf", "python software foundation", "zlib", "mpl", "mozilla", "cc0", "unlicense",
    "public domain", "lgpl", "lesser general public", "hpnd", "bsl-1.0", "boost", "epl-2.0 or bsd",
)  # fmt: skip
"""Parts of names of licences that our Apache-2.0 code may depend on: permissive ones, and weak copyleft."""
REVIEWED = {
    "apsw": "any OSI licence, at the user's choice",
    "cuda-toolkit": "NVIDIA's terms; it comes with torch for NVIDIA GPUs, and with [train] alone",
}
"""Packages whose metadata do not name an accepted licence, and what a look at them showed."""
REVIEWED_PREFIXES = {"nvidia-": "NVIDIA's terms; it comes with torch for NVIDIA GPUs, and with [train] alone"}


@dataclass(frozen=True, slots=True)
class Licence:
    """A dependency, its licence as stated, and whether it is accepted or was reviewed."""

    package: str
    version: str
    stated: str
    accepted: bool
    reviewed: str = ""

    @property
    def fine(self) -> bool:
        """Whether nobody has to look at it."""
        return self.accepted or bool(self.reviewed)


def dependencies(root: str = "x2localizer", extras: tuple[str, ...] = EXTRAS) -> dict[str, Distribution]:
    """Everything that is installed because of a package, itself left out, by normalised name."""
    found: dict[str, Distribution] = {}
    waiting = [(root, extras)]
    seen = set()
    while waiting:
        name, wanted = waiting.pop()
        key = normalised(name)
        if (key, wanted) in seen:
            continue
        seen.add((key, wanted))
        try:
            package = distribution(name)
        except PackageNotFoundError:  # of another platform, or of an extra that is not installed
            continue
        found[key] = package
        for line in package.requires or []:
            need = Requirement(line)
            if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in ("", *wanted)):
                waiting.append((need.name, tuple(sorted(need.extras))))
    found.pop(normalised(root), None)
    return found


def normalised(name: str) -> str:
    """The name of a package as indexes write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def stated_licence(package: Distribution) -> str:
    """What the metadata of a package say: an expression, classifiers, or the first line of a text."""
    about = package.metadata
    if "License-Expression" in about:
        return about["License-Expression"]
    names = [line.split(" :: ")[-1] for line in about.get_all("Classifier") or [] if line.startswith("License ::")]
    text = "\n".join(about.get_all("License") or []).strip().splitlines()
    return " OR ".join(names) or (text[0].strip() if text else "") or "not stated"


def is_accepted(stated: str) -> bool:
    """Whether every part of a licence that holds at the same time is one that we accept."""
    parts = re.split(r"\s+AND\s+", stated)
    return all(any(name in part.lower() for name in ACCEPTED) for part in parts)


def licences(root: str = "x2localizer", extras: tuple[str, ...] = EXTRAS) -> list[Licence]:
    """All dependencies with their licences, by name."""
    out = []
    for name, package in sorted(dependencies(root, extras).items()):
        stated = stated_licence(package)
        reviewed = REVIEWED.get(name) or next((why for p, why in REVIEWED_PREFIXES.items() if name.startswith(p)), "")
        out.append(Licence(name, package.version, stated, is_accepted(stated), reviewed))
    return out
