"""The protocols: against brute force, on a small dataset with untrained towers, and on rankings of others."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from x2localizer import geo
from x2localizer.cli import app
from x2localizer.datasets.dataset import Dataset, open_dataset
from x2localizer.datasets.tables import write_table
from x2localizer.encoders import Bundle, Part, SetCodes
from x2localizer.errors import DatasetError, UserError
from x2localizer.evaluate.coarse import coarse, first_rank
from x2localizer.evaluate.embed import Embeddings, grid_places
from x2localizer.evaluate.entrants import Entrant, entrants
from x2localizer.evaluate.fine import NEVER, distances_m, fine, right_ranks, tile_gallery
from x2localizer.evaluate.protocols import (
    PrefixRow,
    clip_windows,
    fine_rows,
    prefix_rows,
    random_start_rows,
    random_starts,
    score_parts,
)
from x2localizer.evaluate.rankings import ranks_of_file, write_rankings
from x2localizer.evaluate.tables import check_claims, fine_cells, fine_text, prefix_cells, prefix_text


def _quiet(what: str, done: int, total: int) -> None:
    pass


@pytest.fixture(scope="module")
def data(tiny_dataset: Path) -> Dataset:
    return open_dataset(tiny_dataset)


@pytest.fixture(scope="module")
def seen(data: Dataset, tiny_bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Embeddings:
    return Embeddings(data, "test", tiny_bundle, tmp_path_factory.mktemp("embeddings"))


def _soft(values: list[float], temperature: float) -> float:
    weights = np.exp((np.array(values) - max(values)) / temperature)
    return float((weights * np.array(values)).sum() / weights.sum())


def test_coarse_ranks_equal_a_naive_loop(seen: Embeddings, data: Dataset, tiny_bundle: Bundle) -> None:
    found = coarse(seen, 4, ["s_g", "s_f", "s_mix", "s_best"])
    pictures = [data.picture(row.image) for row in data.regions("test")]
    n, t = 7, 32
    regions = [
        tiny_bundle.encode_regions(
            np.stack([p[r * t : r * t + t, c * t : c * t + t] for r in range(n) for c in range(n)])[None]
        )
        for p in pictures
    ]
    for v, video in enumerate(data.videos("test")):
        keys = [row for row in data.frames(video.video_id) if row.keyframe >= 0][:4]
        prefix = tiny_bundle.encode_prefixes(np.stack([data.picture(row.image) for row in keys])[None])
        scores: dict[str, list[float]] = {kind: [] for kind in found}
        for region in regions:
            tokens = prefix.tokens[0] @ region.tokens[0].T
            s_g = float(prefix.whole[0] @ region.whole[0])
            ground = _soft([_soft(row.tolist(), 0.01) for row in tokens], 0.01)
            aerial = _soft([_soft(column.tolist(), 0.01) for column in tokens.T], 0.01)
            s_f = (ground + aerial) / 2
            best = float(np.mean([row.max() for row in tokens]))
            mixed = {"s_g": s_g, "s_f": s_f, "s_mix": (s_g + s_f) / 2, "s_best": best}
            for kind, value in mixed.items():
                scores[kind].append(value)
        truth = int(seen.region_of[v])
        for kind, values in scores.items():
            gaps = np.abs(np.array(values) - values[truth])
            if np.delete(gaps, truth).min() > 1e-5:  # float32 against float64: nearly equal scores may swap
                assert found[kind].ranks[v] == 1 + sum(value > values[truth] for value in values)


@pytest.mark.torch
def test_a_checkpoint_and_its_bundle_are_scored_alike(
    data: Dataset, tiny_bundle: Bundle, tiny_checkpoint: Path, tmp_path: Path
) -> None:
    (by_bundle,) = entrants(str(tiny_bundle.root))
    (by_checkpoint,) = entrants(str(tiny_checkpoint))
    assert by_checkpoint.model == "stage-1 towers"
    rows, gallery = prefix_rows([by_bundle, by_checkpoint], data, "val", tmp_path, _quiet, [1, 8])
    assert gallery == len(data.regions("val"))
    assert by_checkpoint.encoder is not None
    frames = data.picture(data.frames(data.videos("val")[0].video_id)[0].image)[None]
    np.testing.assert_allclose(
        tiny_bundle.encode_frames(frames), by_checkpoint.encoder.encode_frames(frames), atol=1e-5
    )
    cells = prefix_cells(rows, gallery)
    assert len(cells) == 8
    for cell in cells:
        assert cell.r1_low <= cell.r1 <= cell.r1_high
        assert cell.r1 <= cell.r5 <= cell.r10
        assert cell.geo_r1 is not None
        assert cell.params_m is not None
        assert cell.latency_ms is not None
    assert prefix_text(cells).count("\n") == 9


class Counting:
    """An encoder that counts its calls."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle, self.calls = bundle, 0
        self.spec, self.fingerprint, self.threads = bundle.spec, bundle.fingerprint, bundle.threads

    def weights_of(self, part: Part) -> str:
        return f"{part}-{self.fingerprint}"

    def encode_frames(self, images: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        self.calls += 1
        return self.bundle.encode_frames(images)

    def encode_tiles(self, images: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        self.calls += 1
        return self.bundle.encode_tiles(images)

    def encode_area(
        self, image: npt.NDArray[np.uint8], wanted: npt.NDArray[np.bool_] | None = None
    ) -> npt.NDArray[np.float32]:
        self.calls += 1
        return self.bundle.encode_area(image, wanted)

    def encode_prefixes(self, images: npt.NDArray[np.uint8]) -> SetCodes:
        self.calls += 1
        return self.bundle.encode_prefixes(images)

    def encode_regions(self, images: npt.NDArray[np.uint8]) -> SetCodes:
        self.calls += 1
        return self.bundle.encode_regions(images)


def test_embeddings_are_computed_once_for_a_model_and_a_data_set(
    data: Dataset, tiny_bundle: Bundle, tmp_path: Path
) -> None:
    encoder = Counting(tiny_bundle)
    entrant = Entrant("a", "X²Localizer", ("s_mix",), encoder, None)
    first = fine_rows([entrant], data, "val", tmp_path, _quiet, budgets=(2,), galleries=("gps",))
    made = encoder.calls
    assert made > 0
    again = fine_rows([entrant], data, "val", tmp_path, _quiet, budgets=(2,), galleries=("gps",))
    assert encoder.calls == made
    np.testing.assert_array_equal(first[0].found.ranks, again[0].found.ranks)
    encoder.fingerprint = "another"
    fine_rows([entrant], data, "val", tmp_path, _quiet, budgets=(2,), galleries=("gps",))
    assert encoder.calls == 2 * made


def test_keyframes_alone_have_the_codes_that_they_have_among_all_frames(
    data: Dataset, tiny_bundle: Bundle, tmp_path: Path
) -> None:
    encoder = Counting(tiny_bundle)
    first = Embeddings(data, "val", encoder, tmp_path)
    alone = np.array(first.keyframe_codes)
    rows = first.keyframe_rows
    assert len(alone) == (rows >= 0).sum() < len(rows)
    np.testing.assert_allclose(alone, first.frame_codes[rows >= 0], atol=1e-6)
    made = encoder.calls
    again = Embeddings(data, "val", encoder, tmp_path)
    np.testing.assert_array_equal(again.keyframe_codes, first.frame_codes[rows >= 0])
    assert encoder.calls == made  # those of all frames are there


def _log_mean(similarities: npt.NDArray[np.float32]) -> float:
    return float(0.05 * np.log(np.exp(similarities.astype(np.float64) / 0.05).mean()))


@pytest.mark.parametrize(("kind", "of_tiles"), [("s_half", np.max), ("s_sum", _log_mean)])
def test_half_stride_ranks_equal_a_naive_loop(
    seen: Embeddings, kind: str, of_tiles: Callable[[npt.NDArray[np.float32]], float]
) -> None:
    found = coarse(seen, 2, [kind])[kind]
    for v in range(len(seen.videos)):
        frames = [seen.frame_codes[seen.first_frame[v] + k] for k in seen.keyframes[v][:2]]
        scores = [np.mean([of_tiles(seen.grid_codes[r] @ code) for code in frames]) for r in range(len(seen.regions))]
        own = scores[int(seen.region_of[v])]
        if min(abs(s - own) for r, s in enumerate(scores) if r != seen.region_of[v]) > 1e-5:
            assert found.ranks[v] == 1 + sum(score > own for score in scores)


@pytest.mark.parametrize("kind", ["gps", "grid"])
def test_fine_ranks_equal_a_naive_loop(seen: Embeddings, kind: str) -> None:
    tiles = tile_gallery(seen, "gps" if kind == "gps" else "grid")
    top = coarse(seen, 2, ["s_mix"])["s_mix"].top
    frames = [np.arange(a, b) for a, b in zip(seen.first_frame[:-1], seen.first_frame[1:], strict=True)]
    found = fine(seen, tiles, frames, [[top[v, :2]] * len(rows) for v, rows in enumerate(frames)])
    row = 0
    for v, rows in enumerate(frames):
        members: list[tuple[npt.NDArray[np.float32], float, float]] = []
        for region in top[v, :2]:
            if kind == "gps":
                for other in np.flatnonzero(seen.region_of == region):
                    for frame in range(seen.first_frame[other], seen.first_frame[other + 1]):
                        members.append((seen.tile_codes[frame, 0], *seen.places[frame]))
            else:
                for code, place in zip(
                    seen.grid_codes[region].reshape(169, -1), grid_places(seen.regions[region]).reshape(169, 2),
                    strict=True,
                ):  # fmt: skip
                    members.append((code, *place))
        for frame in rows[::7]:
            lat, lon = seen.places[frame]
            scored = [
                (float(seen.frame_codes[frame] @ code), bool(geo.distance_m(lat, lon, a, b) <= 80.467))
                for code, a, b in members
            ]
            right = [score for score, ok in scored if ok]
            expected = 1 + sum(score >= max(right) - 1e-7 and not ok for score, ok in scored) if right else NEVER
            assert abs(int(found.ranks[row + frame - rows[0]]) - expected) <= 1
        row += len(rows)


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=12))
def test_ranks_of_right_tiles_with_ties(tiles: list[tuple[int, bool]]) -> None:
    scores = np.array([[score for score, _ in tiles]], np.float32)
    right = np.array([[ok for _, ok in tiles]])
    # The worst order that the scores allow: wrong tiles before right ones among equals.
    order = sorted(tiles, key=lambda tile: (-tile[0], tile[1]))
    expected = next((place for place, (_, ok) in enumerate(order, 1) if ok), NEVER)
    assert right_ranks(scores, right).tolist() == [expected]
    assert first_rank(scores[0], right[0]) == (len(tiles) if expected == NEVER else expected)


def test_a_score_that_is_no_number_is_an_error() -> None:
    with pytest.raises(ValueError, match="not a number"):
        right_ranks(np.array([[np.nan, 1.0]], np.float32), np.array([[True, False]]))


@given(st.floats(-84, 84), st.floats(-180, 180), st.floats(-0.002, 0.002), st.floats(-0.004, 0.004))
def test_flat_distances_decide_as_the_ellipsoid_does(lat: float, lon: float, north: float, east: float) -> None:
    other = (lat + north, float(geo.wrap_longitude(np.array(lon + east))))
    exact = float(geo.distance_m(lat, lon, *other))
    flat = float(distances_m(np.array([[lat, lon]]), np.array([other]))[0, 0])
    assert (flat <= geo.RIGHT_WITHIN_M) == (exact <= geo.RIGHT_WITHIN_M)
    assert flat == pytest.approx(exact, rel=0.05, abs=1.0)


def test_windows_of_a_clip() -> None:
    assert clip_windows("swrl", 8, 1) == [(0, 0), (4, 4)]
    assert clip_windows("swrl", 8, 2) == [(0, 1), (4, 5)]
    assert clip_windows("swrl", 8, 4) == [(0, 3), (4, 7)]
    assert clip_windows("swrl", 8, 8) == [(0, 7)]
    assert clip_windows("swrl", 3, 8) == [(0, 2)]
    assert clip_windows("swrl", 16, 8) == [(0, 7), (4, 11), (8, 15)]
    for budget in (1, 2, 4, 8):
        assert clip_windows("once", 16, budget) == [(0, budget - 1)]


def test_swrl_serves_new_candidates_only_when_its_window_is_full(
    data: Dataset, tiny_bundle: Bundle, tmp_path: Path
) -> None:
    (entrant,) = entrants(str(tiny_bundle.root))
    rows = {
        (row.budget, row.refresh): row.found
        for row in fine_rows([entrant], data, "test", tmp_path, _quiet, galleries=("grid",), candidates=2)
    }
    frame = np.concatenate([np.arange(36)] * (len(rows[1, "once"].ranks) // 36))
    for budget, ready in ((1, 20), (2, 25), (4, 35)):
        once, swrl = rows[budget, "once"], rows[budget, "SWRL"]
        np.testing.assert_array_equal(once.errors_m[frame < ready], swrl.errors_m[frame < ready])
        assert budget == 4 or (once.errors_m != swrl.errors_m).any()
    np.testing.assert_array_equal(rows[8, "once"].ranks, rows[8, "SWRL"].ranks)


def test_random_starts_are_the_same_for_everybody(data: Dataset, tiny_bundle: Bundle, tmp_path: Path) -> None:
    (entrant,) = entrants(str(tiny_bundle.root))
    rows, fine_found, drawn, _ = random_start_rows([entrant], data, "test", tmp_path, _quiet)
    seen = Embeddings(data, "test", tiny_bundle, tmp_path)
    for budget, starts in drawn.items():
        np.testing.assert_array_equal(starts, random_starts(seen, budget))
        assert starts.max() <= 8 - budget
        (row,) = [row for row in fine_found if row.budget == budget]
        assert len(row.found.ranks) == int((8 - starts).sum())
    assert set(rows[0].ranks) == {1, 2, 4}
    cells = fine_cells(fine_found)
    assert all(cell.r1 <= cell.r5 <= cell.r10 <= cell.r_all <= 100 for cell in cells)
    assert fine_text(cells).count("\n") == 4


def test_a_video_with_fewer_keyframes_than_the_budget_is_seen_whole(
    data: Dataset, tiny_dataset: Path, tiny_bundle: Bundle, tmp_path: Path
) -> None:
    copy = tmp_path / "short"
    copy.mkdir()
    for item in tiny_dataset.iterdir():
        if item.is_dir():
            (copy / item.name).symlink_to(item)
        elif item.suffix != ".parquet":
            (copy / item.name).write_bytes(item.read_bytes())
    first = data.videos("test")[0].video_id
    frames = data.frame_table
    keep = [not (row["video_id"] == first and row["index"] > 11) for row in frames.to_pylist()]
    write_table(copy / "frames.parquet", frames.filter(pa.array(keep)))
    write_table(copy / "regions.parquet", data.region_table)
    write_table(copy / "videos.parquet", data.video_table)
    seen = Embeddings(open_dataset(copy), "test", tiny_bundle, tmp_path / "work")
    assert [len(keys) for keys in seen.keyframes][:2] == [3, 8]
    prefixes = seen.prefixes(8)
    assert prefixes.lengths.tolist()[:2] == [3, 8]
    np.testing.assert_allclose(prefixes.tokens[0, :3], seen.prefixes(4).tokens[0, :3], atol=1e-6)
    (entrant,) = entrants(str(tiny_bundle.root))
    rows = fine_rows([entrant], open_dataset(copy), "test", tmp_path / "work", _quiet, galleries=("gps",))
    assert len(rows) == 8
    with pytest.raises(DatasetError, match="after the last keyframe"):
        seen.prefixes(2, np.full(len(seen.videos), 5))


# Rankings of others -------------------------------------------------------------------------------------------------


def test_rankings_of_a_model_are_scored_as_the_model(data: Dataset, tiny_bundle: Bundle, tmp_path: Path) -> None:
    (whole,) = entrants(str(tiny_bundle.root))
    entrant = replace(whole, similarities=("s_g", "s_mix"))
    path = tmp_path / "ours.parquet"
    write_rankings(path, score_parts(entrant, data, "test", tmp_path / "work"))
    pv.write_csv(pq.read_table(path), tmp_path / "ours.csv")
    both = [entrant, *entrants(str(path)), *entrants(str(tmp_path / "ours.csv"))]
    rows, _ = prefix_rows(both, data, "test", tmp_path / "work", _quiet)
    ours = next(row for row in rows if row.similarity == entrant.similarities[-1])
    for row in rows[-2:]:
        assert row.model == "rankings"
        for budget in (1, 2, 4, 8):
            np.testing.assert_array_equal(row.ranks[budget], ours.ranks[budget])


@given(st.data())
def test_ranks_of_a_file_equal_brute_force(tmp_path_factory: pytest.TempPathFactory, drawn: st.DataObject) -> None:
    queries, items = [f"q{i}" for i in range(drawn.draw(st.integers(1, 4)))], [f"i{i}" for i in range(5)]
    truth = np.array([drawn.draw(st.integers(0, 4)) for _ in queries])
    rows = []
    for query in queries:
        listed = drawn.draw(st.sets(st.sampled_from(items), min_size=1))
        rows += [(query, item, float(drawn.draw(st.integers(0, 2)))) for item in sorted(listed)]
    rows = drawn.draw(st.permutations(rows))
    path = tmp_path_factory.mktemp("r") / "r.csv"
    path.write_text("query,item,score\n" + "".join(f"{q},{i},{s}\n" for q, i, s in rows))
    expected = []
    for q, query in enumerate(queries):
        scores = {item: score for name, item, score in rows if name == query}
        own = scores.pop(items[truth[q]], None)
        expected.append(len(items) if own is None else 1 + sum(score >= own for score in scores.values()))
    assert ranks_of_file(path, queries, items, truth).ranks[8].tolist() == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("query,item,score\na,x,1\n", "does not rank 1 of 2 queries"),
        ("query,item,score\na,x,1\nb,x,1\na,x,2\n", "ranks x twice for a"),
        ("query,item,score\na,x,nan\nb,x,1\n", "not a number"),
        ("query,item,score\na,z,1\nb,x,1\n", "item 'z'"),
        ("query,item,score\nc,x,1\nb,x,1\n", "query 'c'"),
        ("query,item\na,x\n", "no column 'score'"),
        ("query,item,score\na,x,high\nb,x,low\n", "conversion error to double"),
        ("query,item,score\na,x,\nb,x,1\n", "without score"),
        ("query,item,score,budget\na,x,1,two\nb,x,1,one\n", "conversion error to int64"),
        ("query,item,score\n", "has no rows"),
        ("", "Cannot read the rankings"),
    ],
)
def test_bad_rankings_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "r.csv"
    path.write_text(text)
    with pytest.raises(DatasetError, match=message):
        ranks_of_file(path, ["a", "b"], ["x", "y"], np.array([0, 1]))


def test_a_column_of_another_type_in_parquet_is_named(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    pq.write_table(pa.table({"query": ["a"], "item": ["x"], "score": ["high"]}), path)
    with pytest.raises(DatasetError, match="'score' that is not double"):
        ranks_of_file(path, ["a"], ["x", "y"], np.array([0]))


def test_integers_first_and_decimals_later_are_one_column(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    items = [f"i{i}" for i in range(120_000)]
    path.write_text(
        "query,item,score\n" + "".join(f"a,{item},{i}\n" for i, item in enumerate(items[:-1])) + "a,i119999,0.5\n"
    )
    assert ranks_of_file(path, ["a"], items, np.array([119_999])).ranks[8].tolist() == [119_999]


def test_rankings_at_several_budgets(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text("query,item,score,budget\na,x,1,1\na,y,2,1\na,x,3,8\na,y,2,8\n")
    found = ranks_of_file(path, ["a"], ["x", "y"], np.array([0]))
    assert {budget: ranks.tolist() for budget, ranks in found.ranks.items()} == {1: [2], 8: [1]}


def test_what_is_no_model_is_a_clear_error(tmp_path: Path, data: Dataset) -> None:
    with pytest.raises(UserError, match="no checkpoint and is no bundle"):
        entrants(str(tmp_path))
    with pytest.raises(UserError, match="There is no file"):
        entrants(str(tmp_path / "none.csv"))
    with pytest.raises(UserError, match="not a bundle"):
        entrants("nothing")
    path = tmp_path / "r.csv"
    path.write_text("query,item,score\n")
    with pytest.raises(UserError, match="has no frames"):
        fine_rows(entrants(str(path)), data, "test", tmp_path, _quiet)


def test_claims_are_answered_from_the_same_videos() -> None:
    def row(model: str, similarity: str, first: int, run: str = "a") -> PrefixRow:
        ranks = np.where(np.arange(100) < first, 1, 2)
        return PrefixRow(run, model, similarity, {1: ranks, 8: ranks}, {}, None, {})

    rows = [row("X²Localizer", "s_g", 40), row("X²Localizer", "s_mix", 60), row("GAReT's objective", "s_g", 50, "b")]
    found = {(claim.claim.split(":")[0], claim.budget): claim for claim in check_claims(rows)}
    assert found["short prefixes gain", 1].difference == pytest.approx(10.0)
    assert found["short prefixes gain", 1].holds
    assert found["the full video is kept", 8].holds
    assert found["s_mix beats s_g", 8].low > 10.0
    worse = [row("X²Localizer", "s_g", 60), row("X²Localizer", "s_mix", 40), row("GAReT's objective", "s_g", 60, "b")]
    assert not any(claim.holds for claim in check_claims(worse))
    assert check_claims(rows[:2]) == []


@pytest.mark.parametrize("protocol", ["coarse", "fine", "random-start"])
def test_the_protocols_from_the_command_line(
    protocol: str, tiny_dataset: Path, tiny_bundle: Bundle, tmp_path: Path
) -> None:
    words = ["evaluate", str(tiny_bundle.root), "--protocol", protocol, "--data", str(tiny_dataset), "--work"]
    words += [str(tmp_path / "work"), "--out", str(tmp_path / "out"), "--split", "val"]
    if protocol == "coarse":
        words += ["--rankings", str(tmp_path / "ours.parquet")]
    run = CliRunner().invoke(app, words)
    assert run.exit_code == 0, run.output
    values = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
    assert values["protocol"] == protocol
    assert values["machine"]
    table = (tmp_path / "out" / "table.md").read_text(encoding="utf-8")
    for row in values["rows"]:
        assert f"{row['r1']:.1f} ({row['r1_low']:.1f} to {row['r1_high']:.1f})" in table
    if protocol == "random-start":
        assert set(values["starts"]) == {"1", "2", "4"}
    if protocol == "coarse":
        scored = CliRunner().invoke(
            app, ["evaluate", str(tmp_path / "ours.parquet"), "--data", str(tiny_dataset), "--split", "val", "--json"]
        )
        refused = CliRunner().invoke(app, [*words[:-1], str(tmp_path / "ours.csv")])
        assert "written as Parquet" in str(refused.exception)
        mine = [row["r1"] for row in values["rows"] if row["similarity"] == values["rows"][-1]["similarity"]]
        assert [row["r1"] for row in json.loads(scored.output)["rows"]] == mine
