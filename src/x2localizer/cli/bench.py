"""``x2l bench``: measured speeds, as a table or as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.table import Table

from x2localizer.cli.common import (
    DeviceOption,
    JsonOption,
    console,
    measured,
    needs_onnx,
    needs_training,
    progress_bar,
    show_values,
    split_words,
    status_lines,
)
from x2localizer.config import RELEASED, TrainSettings, load_config
from x2localizer.errors import ConfigError

if TYPE_CHECKING:
    from x2localizer.learn.precision import Precision

app = typer.Typer(help="Measure speeds. Every bench prints a table, or with --json one object.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Measure speeds."""


@app.command(epilog="Example: x2l bench town --json")
def town(
    seed: Annotated[int, typer.Option(min=0, help="The town that is measured.")] = 1,
    seconds: Annotated[float, typer.Option(min=0.1, help="Time given to each measurement.")] = 4.0,
    as_json: JsonOption = False,
) -> None:
    """Speed of the embedded world on one core: street frames, towns, regions."""
    from x2localizer.datasets.bench import bench_town  # noqa: PLC0415 - numba takes a second to load

    with status_lines("measuring ...", quiet=as_json):
        values = bench_town(seed, seconds)
    notes = {
        "frames_per_s_48x96": "street frames per second per core",
        "frames_per_s_216x384": "street frames per second per core",
        "town_s": "seconds per town of 2.1 km, imagery included",
        "regions_per_s": "7 x 7 tiles cut, reduced and encoded",
    }
    show_values("the embedded world, one core", values, as_json, notes)


@app.command(epilog="Example: x2l bench model --preset gama --json")
def model(
    preset: Annotated[str, typer.Option(help="gama, town, town-quick, or a TOML file.")] = "gama",
    times: Annotated[int, typer.Option(min=1, help="Runs of each encoder; the fastest counts.")] = 2,
    as_json: JsonOption = False,
) -> None:
    """Size and speed of a model with random weights: encoders against their plain twin, and training steps."""
    needs_training()
    from x2localizer.learn.bench import bench_model  # noqa: PLC0415 - torch takes seconds to load

    settings = load_config(TrainSettings, "train", preset)
    values = bench_model(settings, times)
    notes = {
        "params_image_m": "million parameters of the two image towers",
        "params_video_m": "with the adapters",
        "region_s": "one region, fast",
        "region_naive_s": "one region, every token masked as in the paper",
        "stage3_cached_speedup": "stage 3: everything computed, over aerial side and teacher from the cache",
        "train_step_s": "one step of stage 2, batch 2",
        "train_step_gb": "peak memory of the process",
    }
    show_values(f"the {preset} model, random weights", values, as_json, notes)


@app.command(epilog="Example: x2l bench families --preset gama-dsm --preset town-dsm --json")
def families(
    preset: Annotated[
        list[str] | None, typer.Option(help="Only this preset, such as gama-timesformer; all baselines by default.")
    ] = None,
    batch: Annotated[int, typer.Option(min=2, help="Videos, or frames, in the training step.")] = 2,
    times: Annotated[int, typer.Option(min=1, help="Steps of each; the fastest counts.")] = 1,
    out: Annotated[
        Path | None, typer.Option(help="Add results to this JSON file; what is in it is not measured again.")
    ] = None,
    counted: Annotated[
        bool, typer.Option("--count", help="Only count parameters and operations, which takes seconds.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Parameters of the baselines, and work, time and memory of one training step of each with random weights."""
    needs_training()
    from x2localizer.learn.bench_families import PRESETS, bench_families  # noqa: PLC0415 - torch takes seconds to load

    with status_lines("measuring ...", quiet=as_json) as report:
        found = bench_families(preset or PRESETS, batch, times, out, counted, report)
    values: dict[str, object] = dict(found)
    if not as_json:
        values = {
            name: f"{row['params_m']:.1f} M, {row['gflops_step']:,.0f} GFLOP"
            + (f", {row['step_s']:.3g} s, {row['peak_gb']:.2g} GB" if "step_s" in row else "")
            for name, row in found.items()
        }
    show_values(f"one training step, batch {batch}: parameters, work, time, peak memory", values, as_json)


@app.command(epilog="Example: x2l bench loader --data data/gama --json")
def loader(
    data: Annotated[Path | None, typer.Option(help="A dataset; default: synthetic pictures of GAMa's sizes.")] = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="Time given to each measurement.")] = 3.0,
    as_json: JsonOption = False,
) -> None:
    """Pictures and batches per second that one core reads for training, decoding included."""
    from x2localizer.datasets.bench import bench_loader  # noqa: PLC0415

    notes = {
        "frames_per_s": "street frames, brought to 216 x 384",
        "tiles_per_s": "tiles of 256 x 256",
        "regions_per_s": "regions of 1792 x 1792",
        "pair_batches_per_s": "64 pairs: a step of stage 1",
        "video_batches_per_s": "8 videos of 8 frames with their regions: a step of stage 2",
    }
    show_values("reading pictures, one core", bench_loader(data, seconds), as_json, notes)


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
    """What decoding in a second process costs: video and imagery, against decoding in the same process."""
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

    with progress_bar("making codes", quiet=as_json) as bar:

        def progress(what: str, done: int, total: int) -> None:
            bar(done, total, what)

        values = bench_scale(regions, work, bundle=bundle, queries=queries, sample=sample, progress=progress)
        if curve is not None:
            rows = scale_curve(regions, work, bundle=bundle, queries=queries, sample=sample, progress=progress)
    if curve is not None:
        from x2localizer.show.scale import save_scale_curve  # noqa: PLC0415

        save_scale_curve(curve, rows)
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


@app.command(epilog="Example: x2l bench localize --json")
def localize(
    bundle: Annotated[str, typer.Option(help="A bundle: the name of a shipped one, or a folder.")] = RELEASED,
    minutes: Annotated[
        float, typer.Option(min=3, help="Length of the drive; the tracked one is twice as long.")
    ] = 30.0,
    deit: Annotated[bool, typer.Option(help="Also untrained towers of the paper's size; needs [train].")] = True,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Seconds of video per second of work, and whether a long drive slows it down."""
    from x2localizer.encoders import open_bundle  # noqa: PLC0415
    from x2localizer.localize.bench import bench_localize  # noqa: PLC0415

    values = bench_localize(open_bundle(bundle), minutes=minutes, deit=deit)
    notes = {
        "realtime_town": "seconds of video per second of work, one frame a second",
        "growth_window": "time per frame in the last minute over that in the first, by windows",
        "realtime_deit_s": "the same for towers of the paper's size",
        "odometry_ms_per_frame": "216 x 384 pixels, one core",
        "track_ms_per_s": "the tracker on tiles and roads, for a second of driving",
        "realtime_all": "seconds of video per second of work: odometry at 7 Hz, encoder and tracker at 1 Hz",
        "realtime_first_minute": "the same while the whole map is searched",
        "growth": "time of the tracker in the second half of an hour over that in the first, without the start",
        "peak_mb": "memory of the process that tracks",
    }
    show_values("localizing", values, as_json, notes)


@app.command(epilog="Example: x2l bench decoder decoders/town --json")
def decoder(
    folder: Annotated[Path, typer.Argument(help="A temporal decoder; see x2l train-decoder.")],
    clips: Annotated[int, typer.Option(min=2, help="Clips that are decoded side by side.")] = 16,
    as_json: JsonOption = False,
) -> None:
    """Speed of temporal decoding: a live camera, and many clips side by side against step by step."""
    from x2localizer.encoders.tile_decoder import open_decoder  # noqa: PLC0415
    from x2localizer.localize.bench_decoding import bench_decoding  # noqa: PLC0415

    notes = {
        "live_ms": "for a frame of one camera",
        "batched_ms": "for a frame, all clips side by side",
        "plain_ms": "for a frame, one clip and one hypothesis after the other",
        "speedup": "plain over batched, in one run",
        "largest_difference": "of a probability",
    }
    show_values("temporal decoding", bench_decoding(open_decoder(folder), clips), as_json, notes)


@app.command(epilog="Example: x2l bench odometry --json")
def odometry(
    towns: Annotated[int, typer.Option(min=1, help="Test towns; each has a drive by day and one at night.")] = 4,
    seconds: Annotated[float, typer.Option(min=31, help="Length of each drive.")] = 90.0,
    fps: Annotated[float, typer.Option(min=3, max=30, help="Frames per second.")] = 7.0,
    as_json: JsonOption = False,
) -> None:
    """Errors of visual odometry over 30 s on drives through test towns, and its speed on one core."""
    from x2localizer.evaluate.odometry import bench_odometry  # noqa: PLC0415

    with progress_bar("drives", quiet=as_json) as progress:
        values = bench_odometry(
            range(9000, 9000 + towns), seconds, fps, lambda what, done, total: progress(done, total, what)
        )
    notes = {"ms_per_frame": "on one core"}
    for light in ("day", "night"):
        notes |= {
            f"{light}_turn_deg_median": "error of the turn over 30 s",
            f"{light}_turn_deg_p90": "its 90th percentile",
            f"{light}_distance_percent_median": "error of the distance over 30 s",
            f"{light}_distance_percent_p90": "its 90th percentile",
            f"{light}_standing_m_s": "speed while the car stands",
            f"{light}_normalised_turn": "errors over 10 s in their own standard deviations, 1 is right",
            f"{light}_normalised_distance": "the same for distances",
        }
    show_values("visual odometry", values, as_json, notes)


@app.command(epilog="Example: x2l bench serve --json")
def serve(
    bundle: Annotated[str, typer.Option(help="A bundle: the name of a shipped one, or a folder.")] = "eye",
    seconds: Annotated[float, typer.Option(min=5, help="Time given to each number of sessions.")] = 20.0,
    most: Annotated[int, typer.Option(min=1, max=1000, help="Most sessions to try.")] = 64,
    minutes: Annotated[float, typer.Option(min=3, help="Length of the long drive.")] = 60.0,
    tiles: Annotated[int, typer.Option(min=9, max=74, help="Side of the town in tiles of 58 m.")] = 37,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Cameras that one service follows at a frame a second each, on loopback, and its speed and memory."""
    from x2localizer.cli.serve import needs_serve  # noqa: PLC0415

    needs_serve()
    from tempfile import TemporaryDirectory  # noqa: PLC0415

    from x2localizer.config import TownSettings  # noqa: PLC0415
    from x2localizer.encoders import open_bundle  # noqa: PLC0415
    from x2localizer.serve.bench import bench_serve  # noqa: PLC0415
    from x2localizer.town.town import build_town  # noqa: PLC0415

    with status_lines("driving ...", quiet=as_json), TemporaryDirectory(prefix="x2l-bench-") as work:
        town = build_town(9014, TownSettings(tiles=tiles))
        values = bench_serve(town, open_bundle(bundle), Path(work), seconds=seconds, most=most, minutes=minutes)
    notes = {
        "sessions": "held at a frame a second each, with a 99th percentile under 200 ms and none dropped",
        "frames_per_s": "answered when 8 sessions send as fast as they can",
        "p50_ms": "from sending a frame to its answer, with that many sessions",
        "p99_ms": "its 99th percentile",
        "dropped_share": "of the frames",
        "next_level_p99_ms": "with the number of sessions that was too many",
        "memory_mb_per_session": "of the service",
        "tracking_share": "of the sessions that were sure of their position at the end",
        "locating_p50_ms": "of the first 20 frames of a lone session, while the whole map is searched",
        "hour_first_ms": "median latency of a long drive, five minutes near its start",
        "hour_last_ms": "and its last five minutes",
        "hour_growth": "the second over the first",
    }
    show_values("the service on loopback", values, as_json, notes)


@app.command(epilog="Example: x2l bench precision --data data/standard --json")
def precision(
    bundle: Annotated[str, typer.Option(help="A bundle: the name of a shipped one, or a folder.")] = "town",
    data: Annotated[
        Path | None, typer.Option(help="A dataset for ranges and recall; without it only size and speed.")
    ] = None,
    split: Annotated[str, typer.Option(help="The split that recall is measured on.")] = "test",
    clips: Annotated[int | None, typer.Option(min=1, help="Measure recall on this many clips; default: all.")] = None,
    deit: Annotated[
        bool, typer.Option("--deit", help="Untrained towers of the paper's size instead, speed alone.")
    ] = False,
    threads: Annotated[int, typer.Option(min=0, help="Threads of the encoders; 0 is one for each core.")] = 0,
    precisions: Annotated[str, typer.Option(help="Which to compare with fp32, by comma.")] = "fp16,int8",
    times: Annotated[int, typer.Option(min=1, help="Rounds of timing; the best counts.")] = 7,
    work: Annotated[Path | None, typer.Option(help="Folder for codes, kept for the next run.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Size, speed and recall of a bundle in 32 bits, 16 bits and 8 bits, side by side."""
    needs_onnx()
    from tempfile import TemporaryDirectory  # noqa: PLC0415

    from x2localizer.datasets.dataset import open_dataset  # noqa: PLC0415
    from x2localizer.encoders import open_bundle  # noqa: PLC0415
    from x2localizer.evaluate.precision import bench_precision, to_values  # noqa: PLC0415
    from x2localizer.localize.bench import deit_bundle  # noqa: PLC0415

    if deit:
        needs_training()
    asked = split_words(precisions)
    if not asked or not set(asked) <= {"fp16", "int8"}:
        raise ConfigError(f"'{precisions}' are no precisions.", "Use fp16, int8 or fp16,int8.")
    with TemporaryDirectory(prefix="x2l-bench-") as folder, progress_bar("measuring", quiet=as_json) as progress:
        large = deit_bundle(Path(folder), ("frame", "tile"), threads) if deit else None
        source = None if data is None or deit else open_dataset(data)
        rows = bench_precision(
            large or open_bundle(bundle, threads=threads), source, work or Path(folder), split=split, clips=clips,
            times=times, precisions=cast(list["Precision"], asked),
            report=lambda what, done, total: progress(done, total, what),
        )  # fmt: skip
    values = measured(
        {
            "bundle": "deit-s, random weights" if deit else bundle,
            "split": split,
            "threads": threads,
            "rows": to_values(rows),
        }
    )
    if as_json:
        typer.echo(json.dumps(values))
        return
    table = Table(title=f"{values['bundle']} by precision", title_justify="left")
    for title in (
        "precision",
        "MB",
        "ms a frame",
        "times",
        "ms a tile",
        "times",
        "CPU ms a frame",
        "times",
        "R@1 1 / 2 / 4 / 8",
        "points lost",
    ):
        table.add_column(title)
    for row in values["rows"]:
        table.add_row(
            row["precision"], f"{row['bytes'] / 1e6:.1f}", f"{row['ms_frame']:.2f}", f"{row['speedup_frame']:.2f}",
            f"{row['ms_tile']:.2f}", f"{row['speedup_tile']:.2f}",
            f"{row['cpu_ms_frame']:.2f}", f"{row['speedup_cpu']:.2f}",
            " / ".join(f"{v:.1f}" for v in row["r1"].values()),
            " / ".join(f"{v[0]:.1f} [{v[1]:.1f}, {v[2]:.1f}]" for v in row["r1_lost"].values()),
        )  # fmt: skip
    console.print(table)


@app.command(epilog="Example: x2l bench edge --json")
def edge(
    bundle: Annotated[str, typer.Option(help="A bundle: the name of a shipped one, or a folder.")] = RELEASED,
    slim: Annotated[
        Path | None, typer.Option(help="The slim bundle to localize with; made from the other by default.")
    ] = None,
    towns: Annotated[int, typer.Option(min=1, help="Towns of 4.6 km² in the gallery.")] = 4,
    times: Annotated[int, typer.Option(min=0, help="Runs; the best counts, after one that fills caches.")] = 3,
    work: Annotated[Path | None, typer.Option(help="Folder for towns and gallery, kept for the next run.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Memory, time to the first fix and size on disk of x2l localize on a small machine."""
    from tempfile import TemporaryDirectory  # noqa: PLC0415

    from x2localizer.encoders import open_bundle  # noqa: PLC0415
    from x2localizer.localize.bench_edge import bench_edge  # noqa: PLC0415

    opened = open_bundle(bundle)
    with TemporaryDirectory(prefix="x2l-bench-") as folder, status_lines("driving ...", quiet=as_json) as report:
        place = work or Path(folder)
        if slim is None:
            needs_onnx()
            from x2localizer.learn.slim import slim_bundle  # noqa: PLC0415

            slim = slim_bundle(opened, place / "slim").root
        values = bench_edge(opened, slim, place, towns=towns, times=times, report=report)
    notes = {
        "peak_mb": "memory of the process",
        "start_s": "from the start of the process to its first fix",
        "start_cpu_s": "CPU time until then, of all cores",
        "bundle_bytes": "of the slim bundle",
        "loaded": "heavy libraries that were loaded",
    }
    show_values("localizing on a small machine", measured(values), as_json, notes)
