"""``x2l bench``: galleries: making, opening and searching them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from x2localizer.cli.common import DeviceOption, JsonOption, progress_bar, show_values
from x2localizer.config import RELEASED

app = typer.Typer()


@app.command(epilog="Example: x2l bench index --against ../older-checkout/src --json")
def index(
    against: Annotated[Path | None, typer.Option(help="src folder of another version, measured in turns.")] = None,
    towns: Annotated[int, typer.Option(min=1, help="Towns of 4.6 km² in one gallery.")] = 2,
    times: Annotated[int, typer.Option(min=1, help="Runs of each version; the best counts.")] = 2,
    bundle: Annotated[str, typer.Option(help="A bundle: the name of a shipped one, or a folder.")] = RELEASED,
    against_bundle: Annotated[str | None, typer.Option(help="Another bundle, measured in turns.")] = None,
    ray: Annotated[int, typer.Option(min=0, help="Workers of a Ray cluster on this machine, measured too.")] = 0,
    localize: Annotated[bool, typer.Option(help="Also open a localizer on the gallery.")] = True,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Speed of indexing, size of the gallery, memory of indexing and of localizing, and costs of large areas."""
    from x2localizer.gallery.bench import bench_index  # noqa: PLC0415

    notes = {
        "regions_per_s": "indexed, tiles included",
        "regions_per_core_s": "by the time of all cores, which other programs do not change much",
        "gallery_bytes_per_km2": "on disk",
        "peak_mb": "memory of the process that indexes",
        "open_s": "a localizer on the gallery, until its third frame",
        "search_ms": "an update of the window localizer that searches, encoding included",
        "localizer_mb": "memory of the process that localizes",
        "core_ms_per_tile": "with one thread: reading, encoding and storing",
        "cores_per_writer": "that keep one core busy with storing what they encode",
        "state_core_hours": "of 27,000 km² at 42 degrees of latitude, by that time per tile",
        "state_gallery_gb": "on disk",
        "country_core_hours": "of 357,000 km² at 51 degrees",
        "country_gallery_gb": "on disk",
        "ray_s": "to index one town on the Ray cluster",
        "ray_ratio": "seconds without Ray over seconds with it",
    }
    values = bench_index(
        towns=towns,
        times=times,
        against=against,
        bundle=bundle,
        against_bundle=against_bundle,
        ray_workers=ray,
        localize=localize,
    )
    show_values("indexing", values, as_json, notes)


@app.command("open", epilog="Example: x2l bench open --json")
def open_(
    blocks: Annotated[int, typer.Option(min=1, help="Blocks of 8 x 8 tiles; 400 are 86 km² at 40 degrees.")] = 400,
    times: Annotated[int, typer.Option(min=1, help="Runs of each kind; the fastest counts.")] = 5,
    as_json: JsonOption = False,
) -> None:
    """What the checksums of a gallery cost when it is opened and read, in seconds of computing."""
    from x2localizer.gallery.bench_open import bench_open  # noqa: PLC0415

    notes = {
        "gallery_mb": "on disk",
        "seal_s": "writing the checksums, at the end of indexing",
        "open_none_s": "opening, without checksums",
        "open_used_s": "opening, as by default",
        "open_full_s": "opening with --verify full",
        "read_none_s": "opening and reading all codes, without checksums",
        "read_used_s": "the same, as by default",
        "read_full_s": "the same with --verify full",
    }
    show_values("opening a gallery", bench_open(blocks, times), as_json, notes)


@app.command(epilog="Example: x2l bench guard --json")
def guard(
    frames: Annotated[int, typer.Option(min=1, help="Frames of the video.")] = 100,
    size: Annotated[str, typer.Option(help="Height x width of the video.")] = "720x1280",
    times: Annotated[int, typer.Option(min=1, help="Runs of each kind; the best counts.")] = 3,
    as_json: JsonOption = False,
) -> None:
    """What a second process costs: video, telemetry, imagery and roads, against reading in the same process."""
    from x2localizer.cli.common import parse_size  # noqa: PLC0415
    from x2localizer.sources.guard.bench import bench_guard  # noqa: PLC0415

    height, width = parse_size(size)
    show_values("decoding in a second process", bench_guard(frames, height, width, times), as_json)


@app.command(epilog="Example: x2l bench search --json")
def search(
    queries: Annotated[int, typer.Option(min=1, help="Searches of each kind.")] = 20,
    regions: Annotated[int, typer.Option(min=1000, help="Regions of the large gallery (d = 128).")] = 100_000,
    as_json: JsonOption = False,
) -> None:
    """The certified search against the plain one, by s_mix and s_path, and in a large gallery."""
    from x2localizer.search.bench import bench_search  # noqa: PLC0415

    values = bench_search(queries, regions)
    notes = {
        "speedup": "plain over certified, the same queries in one run",
        "same_top10_share": "of the queries",
        "ms_3103": "median per search, 49 tokens, d = 1000, 8 frames",
        "ms_3136_path": "by s_path, 169 tiles, d = 128, all tiles in memory",
        "ms_3136_path_small": "the same with tiles in 8 bits",
        "ms_100k": "median per search in the large gallery, d = 128",
        "certified_share": "of the searches in the large gallery",
        "bytes_per_region": "that a search keeps in memory, d = 1000",
    }
    show_values("search", values, as_json, notes)


@app.command(epilog="Example: x2l bench scale --regions 1000000 --work scale --json")
def scale(
    regions: Annotated[int, typer.Option(min=100, help="Regions of the country, more or less.")] = 1_000_000,
    bundle: Annotated[str, typer.Option(help="Whose codes; with eye there are eight for each tile.")] = "town",
    queries: Annotated[int, typer.Option(min=1, help="Windows that are searched.")] = 200,
    sample: Annotated[int, typer.Option(min=1, help="How many of them are searched exactly, too.")] = 25,
    work: Annotated[Path, typer.Option(help="Folder for the country: 11 GB for a million regions.")] = Path("scale"),
    curve: Annotated[Path | None, typer.Option(help="Measure 1,000, 10,000, ... regions as well, and draw it.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Approximate search in a synthetic country with the statistics of real codes. An interrupted run resumes."""
    from x2localizer.search.approximate.bench import bench_scale, scale_curve  # noqa: PLC0415

    with progress_bar("making codes") as bar:  # to standard error, also beside JSON

        def progress(what: str, done: int, total: int) -> None:
            bar(done, total, what)

        if curve is None:
            values = bench_scale(regions, work, bundle=bundle, queries=queries, sample=sample, progress=progress)
        else:
            from x2localizer.show.scale import save_scale_curve  # noqa: PLC0415

            rows = scale_curve(regions, work, bundle=bundle, queries=queries, sample=sample, progress=progress)
            save_scale_curve(curve, rows)
            values = {**rows[-1], "smaller": rows[:-1]} if as_json else rows[-1]
    notes = {
        "p50_ms": "median time of a search of 8 frames; the target is 50",
        "p99_ms": "its 99th percentile",
        "cpu_p50_ms": "time of all cores together",
        "same_top1_share": "of the sample, the same best region as the exact search; 0.99",
        "same_top10_share": "of the ten best regions of the exact search; 0.95",
        "memory_gb": "peak of the process that searches, pages of mapped files included; 8",
        "open_s": "gallery and index; 10",
        "build_s_per_million": "seconds to build the index, for a million regions",
        "index_gb": "on disk, beside the gallery",
    }
    show_values("search in a country", values, as_json, notes)


@app.command(epilog="Example: x2l bench indexes --regions 10000 --json")
def indexes(
    regions: Annotated[int, typer.Option(min=1000, help="Regions of the country, more or less.")] = 10_000,
    queries: Annotated[int, typer.Option(min=1, help="Windows that are searched.")] = 20,
    work: Annotated[Path, typer.Option(help="Folder for the country.")] = Path("scale"),
    as_json: JsonOption = False,
) -> None:
    """Vector indexes on the same tiles: LanceDB's, FAISS and usearch where they are installed, and ours."""
    from x2localizer.search.approximate.libraries import bench_indexes  # noqa: PLC0415

    with progress_bar("making codes", quiet=as_json) as bar:
        rows = bench_indexes(regions, work, queries, progress=lambda what, done, total: bar(done, total, what))
    if as_json:
        typer.echo(json.dumps(rows))
        return
    for row in rows:
        show_values(str(row["index"]), {name: value for name, value in row.items() if name != "index"}, False)
