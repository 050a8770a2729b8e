"""What is in a gallery, finished or not, for people."""

from __future__ import annotations

from x2localizer.gallery.store import Gallery, open_any


def describe(address: str) -> dict[str, object]:
    """The facts about a gallery by name."""
    gallery: Gallery = open_any(address)
    manifest = gallery.manifest
    unfinished = manifest.unfinished()
    return {
        "bundle": manifest.encoder, "zoom": manifest.zoom, "region tiles": manifest.region_tiles,
        "stride": manifest.stride, "codes": ", ".join(manifest.codes), "regions": len(gallery.regions),
        "blocks of 8 x 8 tiles": len(gallery.ids("tiles")),
        **{
            f"imagery {i + 1}": f"{source.imagery} ({'half built' if source in unfinished else 'complete'})"
            for i, source in enumerate(manifest.sources)
        },
    }  # fmt: skip
