"""Sound files of every kind, as small as they can be: what inputs are made from. All are made on the spot."""

from __future__ import annotations

import hashlib
import io
import json
import math
import shutil
import struct
import zipfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq
from PIL import Image as Pillow

from helpers.gallery_files import write_noise
from helpers.imagery_files import noise, on_grid
from helpers.road_files import Way, write_osm, write_pbf
from helpers.small_world import TINY
from helpers.telemetry_files import item, mp4, nest
from helpers.tiny_bundle import TINY_BUNDLE, save_tiny_checkpoint
from helpers.video_files import encode, picture
from x2localizer import geo
from x2localizer.serve.wire import pack_frame

Make = Callable[[Path], None]
WAYS: list[Way] = [
    ([(48.1 + 0.001 * k, 11.5 + 0.0005 * k * k) for k in range(6)], {"highway": "residential", "name": "Ringstraße"}),
    ([(48.101, 11.5), (48.102, 11.51)], {"highway": "primary", "oneway": "yes"}),
]


def video(folder: Path) -> None:
    for name, codec, count in (
        ("a.mp4", "libx264", 12), ("b.mkv", "libx264", 8), ("c.avi", "mjpeg", 6), ("d.ts", "libx264", 8),
        ("e.webm", "libvpx-vp9", 6),
    ):  # fmt: skip
        encode(folder / name, count, codec=codec, gop=4, b_frames=0, rate=Fraction(10))


def image_folder(folder: Path) -> None:
    root = folder / "images"
    root.mkdir()
    for number, suffix in enumerate(("jpg", "png", "jpg", "jpg")):
        Pillow.fromarray(picture(number)).save(root / f"{number:03d}.{suffix}")
    (root / "times.csv").write_text("file,time_s\n000.jpg,0\n001.png,0.5\n002.jpg,1.25\n003.jpg,2\n")


def geotiff(folder: Path) -> None:
    on_grid(folder / "plain.tif", noise(side=256))
    on_grid(folder / "packed.tif", noise(1, 256), compress="deflate", nodata=0)
    on_grid(folder / "jpeg.tif", noise(side=256), compress="jpeg", photometric="ycbcr")
    on_grid(folder / "floats.tif", noise(1, 128).astype(np.float32), tiled=False, blockxsize=128, blockysize=8)


def vrt(folder: Path) -> None:
    root = folder / "vrt"
    root.mkdir()
    on_grid(root / "a.tif", noise(side=64), tiled=False, blockxsize=64, blockysize=16)
    west, _, east, north = geo.mercator_bounds(1000, 700, 12)
    step = (east - west) / 256
    bands = "".join(
        f'<VRTRasterBand dataType="Byte" band="{b}"><SimpleSource>'
        '<SourceFilename relativeToVRT="1">a.tif</SourceFilename>'
        f"<SourceBand>{b}</SourceBand></SimpleSource></VRTRasterBand>"
        for b in (1, 2, 3)
    )
    (folder / "a.vrt").write_text(
        f'<VRTDataset rasterXSize="64" rasterYSize="64"><SRS>EPSG:3857</SRS>'
        f"<GeoTransform>{west}, {step}, 0, {north}, 0, {-step}</GeoTransform>{bands}</VRTDataset>"
    )
    shutil.move(root / "a.tif", folder / "a.tif")
    root.rmdir()


def mbtiles(folder: Path) -> None:
    on_grid(folder / "a.mbtiles", noise(side=256), driver="MBTiles", TILE_FORMAT="PNG")


def xyz(folder: Path) -> None:
    for x in (16000, 16001):
        for y in (11000, 11001):
            path = folder / "tiles" / "15" / str(x) / f"{y}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Pillow.fromarray(np.full((64, 64, 3), (x + y) % 200 + 30, np.uint8)).save(path)
    (folder / "tiles" / "metadata.json").write_text(json.dumps({"minzoom": 15, "maxzoom": 15, "format": "png"}))


def gpx(folder: Path) -> None:
    points = "".join(
        f'<trkpt lat="{48.1 + k * 1e-4}" lon="{11.5 + k * 1e-4}"><ele>5{k}</ele><time>2026-05-01T12:00:{k:02d}Z</time>'
        f"<extensions><speed>{k}.5</speed></extensions></trkpt>"
        for k in range(10)
    )
    (folder / "a.gpx").write_text(
        '<?xml version="1.0" encoding="UTF-8"?>\n<gpx version="1.1" creator="x" xmlns="http://www.topografix.com/GPX/1/1">'
        f"<metadata><name>a</name></metadata><trk><name>a</name><trkseg>{points}</trkseg></trk></gpx>"
    )


def track_csv(folder: Path) -> None:
    rows = [f"{k * 0.5},{48.1 + k * 1e-4},{11.5 - k * 1e-4}" for k in range(12)]
    (folder / "a.csv").write_text("time_s,lat,lon\n" + "\n".join(rows) + "\n")
    rows = [f"2026-05-01T12:00:{k:02d}Z;{48.1 + k * 1e-4};{11.5}" for k in range(12)]
    (folder / "b.csv").write_text("timestamp;latitude;longitude\n" + "\n".join(rows) + "\n")
    (folder / "c.tsv").write_text("unix\tlat\tlng\n" + "".join(f"{1777636800 + k}\t48.{k}\t11.5\n" for k in range(8)))


def _gps5(k: int) -> bytes:
    rows = b"".join(struct.pack(">5i", 481000000 + 900 * (k + j), 115000000, 500, 0, 0) for j in range(5))
    gps = nest(
        "STRM", item("GPSF", "L", 4, struct.pack(">I", 3)), item("GPSU", "U", 16, b"260501120000.000"),
        item("GPSP", "S", 2, struct.pack(">H", 200)),
        item("SCAL", "l", 4, struct.pack(">5i", 10_000_000, 10_000_000, 1000, 1000, 100)), item("GPS5", "l", 20, rows),
    )  # fmt: skip
    rates = struct.pack(">30h", *range(30))
    gyro = nest(
        "STRM", item("SIUN", "c", 4, b"rad/s"[:4]), item("SCAL", "s", 2, b"\x01\xa2"), item("GYRO", "s", 6, rates)
    )
    return nest("DEVC", item("DVNM", "c", 1, b"Camera"), gps, gyro)


def telemetry(folder: Path) -> None:
    packets = [_gps5(k) for k in range(3)]
    (folder / "gopro.mp4").write_bytes(mp4(packets, b"gpmd"))
    (folder / "gopro.raw").write_bytes(b"".join(packets))
    camm = [struct.pack("<HH3d", 0, 5, 48.1 + k * 1e-4, 11.5, 500.0) for k in range(6)]
    (folder / "camm.mp4").write_bytes(mp4(camm, b"camm"))


def motion(folder: Path) -> None:
    rows = [f"{k * 0.1:.1f},{9 + math.sin(k)},{k}" for k in range(40)]
    (folder / "a.csv").write_text("time_s,speed_m_s,yaw_rate_deg_s\n" + "\n".join(rows) + "\n")
    pq.write_table(pv.read_csv(folder / "a.csv"), folder / "a.parquet")
    (folder / "poses.txt").write_text("".join(f"1 0 0 {k} 0 1 0 0 0 0 1 {k * 0.5}\n" for k in range(15)))
    (folder / "tum.txt").write_text("# time\n" + "".join(f"{k * 0.1} {k} 0 0 0 0 0 1\n" for k in range(15)))
    (folder / "gopro.mp4").write_bytes(mp4([_gps5(k) for k in range(3)], b"gpmd"))


def oxts(folder: Path) -> None:
    data = folder / "drive" / "oxts" / "data"
    data.mkdir(parents=True)
    for k in range(5):
        row = [48.1 + k * 1e-5, 11.5, 500.0, *(0.01 * j for j in range(27))]
        (data / f"{k:010d}.txt").write_text(" ".join(map(str, row)) + "\n")
    stamps = "".join(f"2011-09-26 13:02:{25 + k}.964389445\n" for k in range(5))
    (folder / "drive" / "oxts" / "timestamps.txt").write_text(stamps)


def ros_bag(folder: Path) -> None:
    from helpers.ros_bags import BagWriter

    for storage in ("mcap", "sqlite3"):
        with BagWriter(folder / storage, storage) as bag:
            for k in range(4):
                bag.jpeg("/camera", k * 0.5, picture(k))
                bag.odometry("/odom", k * 0.5, 5.0, 0.1)


def roads(folder: Path) -> None:
    import pyogrio

    write_osm(folder / "a.osm", WAYS)
    write_pbf(folder / "a.osm.pbf", WAYS)
    features = [
        {
            "type": "Feature",
            "properties": tags,
            "geometry": {"type": "LineString", "coordinates": [p[::-1] for p in line]},
        }
        for line, tags in WAYS
    ]
    (folder / "a.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    lines = [[value for point in line for value in point[::-1]] for line, _ in WAYS]
    shapes = np.array([struct.pack(f"<BII{len(row)}d", 1, 2, len(row) // 2, *row) for row in lines], object)
    kinds = [np.array([tags["highway"] for _, tags in WAYS], object)]
    (folder / "shape").mkdir()
    for name, driver in (("a.gpkg", "GPKG"), ("a.fgb", "FlatGeobuf"), ("shape/roads.shp", "ESRI Shapefile")):
        pyogrio.raw.write(
            folder / name, shapes, kinds, ["highway"], geometry_type="LineString", crs="EPSG:4326", driver=driver
        )


def bundle(folder: Path) -> None:
    shutil.copytree(TINY_BUNDLE, folder / "bundle")


def checkpoint(folder: Path) -> None:
    save_tiny_checkpoint(folder / "a.safetensors")
    import torch

    torch.save({"state_dict": {"a.weight": torch.ones(3, 4), "b": torch.zeros(2)}, "epoch": 3}, folder / "b.pth")


def gallery(folder: Path) -> None:
    from x2localizer.encoders import open_bundle
    from x2localizer.gallery import index

    source = write_noise(folder / "a.tif", 278528, 181000, 9)
    lat, lon = geo.from_tile_coordinates(278530.0, 181002.0, 19)
    way: Way = ([(float(lat), float(lon)), (float(lat) - 0.001, float(lon) + 0.001)], {"highway": "primary"})
    line = write_osm(folder / "a.osm", [way])
    index(source, open_bundle(TINY_BUNDLE), folder / "gallery", codes=("tiles", "regions"), roads=[line])
    source.unlink()
    line.unlink()


def gallery_file(folder: Path) -> None:
    """What is in such a file, as files."""
    from x2localizer.gallery.share import export

    (folder / "made").mkdir()
    gallery(folder / "made")
    export(str(folder / "made" / "gallery"), folder / "city.x2g")
    with zipfile.ZipFile(folder / "city.x2g") as file:
        file.extractall(folder / "city")
    shutil.rmtree(folder / "made")
    (folder / "city.x2g").unlink()


def dataset(folder: Path) -> None:
    from x2localizer.config import SplitSettings, TownSettings
    from x2localizer.datasets.town import make_dataset

    few = SplitSettings(towns=1, first_seed=0, grid=False, videos_per_town=1)
    settings = TINY.model_copy(update={
        "town": TownSettings(tiles=9, pixels_per_tile=32), "train": few,
        "val": few.model_copy(update={"first_seed": 5000}),
        "test": few.model_copy(update={"first_seed": 9000}), "tile_px": 32,
    })  # fmt: skip
    made = make_dataset(settings, folder / "made", "a seed", workers=1)
    shutil.move(made, folder / "data")


def config(folder: Path) -> None:
    from importlib import resources

    for family in ("train", "dataset", "town"):
        for file in (Path(str(resources.files("x2localizer"))) / "configs" / family).glob("*.toml"):
            shutil.copy(file, folder / f"{family}-{file.name}")


def rankings(folder: Path) -> None:
    rows = [(f"v{q}", f"r{i}", float(10 - i)) for q in range(4) for i in range(6)]
    (folder / "a.csv").write_text("query,item,score\n" + "".join(f"{q},{i},{s}\n" for q, i, s in rows))
    columns = [list(column) for column in zip(*rows, strict=True)]
    pq.write_table(pa.table(dict(zip(("query", "item", "score"), columns, strict=True))), folder / "a.parquet")


def frame_message(folder: Path) -> None:
    for number, progressive in enumerate((False, True)):
        out = io.BytesIO()
        Pillow.fromarray(picture(number)).save(out, "JPEG", progressive=progressive)
        (folder / f"{number}.frame").write_bytes(pack_frame(out.getvalue(), 12.5))


def service_json(folder: Path) -> None:
    samples = [{"time_s": k / 10, "speed_m_s": 9.0, "yaw_rate_deg_s": 1.0} for k in range(12)]
    (folder / "samples.json").write_text(json.dumps({"samples": samples}))
    options = {"odometry": "samples", "prior": {"lat_deg": 48.1, "lon_deg": 11.5, "radius_m": 2000.0}}
    (folder / "session.json").write_text(json.dumps(options))


def confidence(folder: Path) -> None:
    from x2localizer.encoders.bundle import shipped

    for name, file in (("eye", "track.json"), ("town", "confidence.json")):
        root = shipped(name)
        assert root is not None
        (folder / name).mkdir()
        shutil.copy(root / file, folder / name / file)


def town(folder: Path) -> None:
    values = {"seed": 5, "settings": {"tiles": 9, "pixels_per_tile": 32}}
    (folder / "town").mkdir()
    (folder / "town" / "town.json").write_text(json.dumps(values))


def toy(folder: Path) -> None:
    (folder / "a.bin").write_bytes(b"sound\n")


def reseal(root: Path) -> None:
    """Give a broken bundle the fingerprint of its broken files, so that the graphs behind it are reached."""
    digest = hashlib.sha256()
    for name in ("frame.onnx", "tile.onnx", "prefix.onnx", "region.onnx", "weights.bin"):
        file = root / name
        digest.update(name.encode() + b"\0" + (file.read_bytes() if file.is_file() else b""))
    try:
        manifest = json.loads((root / "bundle.json").read_text())
        manifest["fingerprint"] = digest.hexdigest()[:16]
        (root / "bundle.json").write_text(json.dumps(manifest))
    except (ValueError, TypeError, OSError, RecursionError):
        return


def pack(root: Path) -> None:
    """A gallery file of broken members, with their checksums, so that what is behind these is reached."""
    members = {file.name: file.read_bytes() for file in sorted(root.iterdir()) if file.is_file()}
    try:
        about = json.loads(members["gallery.json"])
        for name, values in about["tables"].items():
            data = members.get(f"{name}.arrow", b"")
            about["tables"][name] = [values[0], len(data), hashlib.sha256(data).hexdigest()]
        members["gallery.json"] = json.dumps(about).encode()
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError):
        pass
    with zipfile.ZipFile(root / "city.x2g", "w") as file:
        for name, data in members.items():
            file.writestr(name, data)
