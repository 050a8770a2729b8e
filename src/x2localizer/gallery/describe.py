"""What is in a gallery, finished or not, for people."""

from __future__ import annotations

from collections.abc import Sequence

from x2localizer.gallery.object_store import is_object_store, store_errors
from x2localizer.gallery.open import open_any, open_to_read
from x2localizer.gallery.store import Gallery


def describe(address: str) -> dict[str, object]:
    """The facts about a gallery by name; of one in an object store without fetching it."""
    with store_errors(address):
        return _facts(open_any(address) if is_object_store(address) else open_to_read(address))


def _facts(gallery: Gallery) -> dict[str, object]:
    manifest = gallery.manifest
    unfinished = manifest.unfinished()
    tiles: dict[str, object] = {
        "bundle": manifest.encoder, "zoom": manifest.zoom, "region tiles": manifest.region_tiles,
        "stride": manifest.stride, "codes": ", ".join(manifest.codes), "regions": len(gallery.regions),
        "blocks of 8 x 8 tiles": len(gallery.ids("tiles")),
    }  # fmt: skip
    return {
        **(tiles if gallery.has_tiles else {"imagery": "none: this gallery has roads only"}),
        **{
            f"imagery {i + 1}": f"{source.imagery} ({'half built' if source in unfinished else 'complete'})"
            for i, source in enumerate(manifest.sources)
        },
        **{
            f"roads {i + 1}": f"{source.path} ({describe_lengths(source.lengths_m)})"
            for i, source in enumerate(manifest.roads)
        },
    }


def describe_lengths(lengths_m: Sequence[float]) -> str:
    """Lengths of the kinds of roads in words."""
    main, street, service = (length / 1000 for length in lengths_m)
    parts = f"main roads {main:,.1f}, streets {street:,.1f}, service roads and tracks {service:,.1f}"
    return f"{main + street + service:,.1f} km: {parts}"
