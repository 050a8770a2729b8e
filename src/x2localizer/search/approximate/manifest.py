"""What an approximate index says of itself, and whether it belongs to a gallery as it is now."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from x2localizer.errors import GalleryError
from x2localizer.files import write_text
from x2localizer.gallery.open import open_any
from x2localizer.gallery.store import Gallery

FORMAT = 1
FOLDER = "approximate"
"""Of the index, inside the folder of its gallery."""
MANIFEST = "index.json"


@dataclass(frozen=True, slots=True)
class IndexManifest:
    """An approximate index, as its last step wrote it.

    gallery: a name for exactly the tiles of the gallery that went in; see :func:`state_of`.
    blocks: blocks of 8 x 8 tiles in it.
    codes: codes in its lists.
    directions: length of the codes in 8 bits.
    lists: part of the names of the files of its lists.
    books: part of the names of all other files.
    """

    gallery: str
    blocks: int
    codes: int
    directions: int
    lists: str
    books: str
    format: int = FORMAT

    def save(self, folder: Path) -> None:
        """Write it: from then on the index counts."""
        write_text(folder / MANIFEST, json.dumps(asdict(self), indent=2) + "\n")


def state_of(gallery: Gallery) -> str:
    """A name for the tiles that a gallery holds: it changes whenever imagery is added or replaced."""
    m = gallery.manifest
    sources = [(s.imagery, s.bounds, s.replace, "tiles" in s.done) for s in m.sources]
    told = json.dumps([m.encoder, m.zoom, m.region_tiles, m.stride, m.dim, m.headings, sources]).encode()
    blocks = np.array(sorted(gallery.block_sources().items()), np.int64).tobytes()
    return hashlib.sha256(told + blocks).hexdigest()[:16]


def index_folder(gallery: Gallery) -> Path:
    """Where the index of a gallery is; galleries in object stores have none."""
    if "://" in gallery.address or Path(gallery.address).is_file():
        raise GalleryError(
            f"The gallery {gallery.address} is not a local folder, and an approximate index is read from disk.",
            "Copy the gallery to this machine (x2l gallery export, then x2l gallery import), or search it with "
            "--search exact.",
        )
    return Path(gallery.address) / FOLDER


def has_index(gallery: Gallery) -> bool:
    """Whether there is an index beside a gallery, valid or not."""
    return "://" not in gallery.address and (Path(gallery.address) / FOLDER / MANIFEST).exists()


def read_manifest(gallery: Gallery) -> IndexManifest:
    """The manifest of a gallery's index; a missing, damaged, old or stale one is an error that says what to run."""
    path = index_folder(gallery) / MANIFEST
    if not path.is_file():
        raise GalleryError(f"The gallery {gallery.address} has no approximate index.", f"Build it: {command(gallery)}")
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        version = int(values["format"])
        manifest = IndexManifest(**values) if version == FORMAT else None
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise damaged(gallery) from problem
    if manifest is None:
        raise GalleryError(
            f"The approximate index of {gallery.address} has format {version}, this version reads {FORMAT}.",
            f"Build it again: {command(gallery)}",
        )
    if manifest.gallery != state_of(gallery):
        raise GalleryError(
            f"The approximate index of {gallery.address} is stale: the gallery has changed since it was built.",
            f"Bring it up to date: {command(gallery)} (or search with --search exact)",
        )
    return manifest


def damaged(gallery: Gallery) -> GalleryError:
    """The error for an index that cannot be read."""
    return GalleryError(
        f"The approximate index of {gallery.address} is damaged.",
        f"Build it again: {command(gallery)} --replace",
    )


def command(gallery: Gallery) -> str:
    """The command that builds the index, or brings it up to date."""
    return f"x2l index --approximate --out {gallery.address}"


def describe_index(address: str) -> dict[str, object]:
    """The index of a gallery for people; nothing if there is none."""
    if Path(address).is_file():
        return {}
    gallery = open_any(address)
    if not has_index(gallery):
        return {}
    try:
        manifest = read_manifest(gallery)
    except GalleryError as problem:
        return {"approximate index": str(problem)}
    return {"approximate index": f"current, {manifest.codes:,} codes in {manifest.blocks:,} blocks"}
