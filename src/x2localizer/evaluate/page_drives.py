"""Sections of the benchmark page about long drives."""

from __future__ import annotations

from x2localizer.evaluate import tracking_tables
from x2localizer.evaluate.long_range_table import ArmRow, LongRange, table_text
from x2localizer.evaluate.page_section import Section, Values, data_options


def _decoding_long(values: Values) -> str:
    return (
        "The same on long drives, with candidates found once and by SWRL: `x2l evaluate town --protocol long-range "
        f"--no-tracking --decoder decoders/town --data {data_options(values)}`.\n\n" + _arms(values)
    )


def _long_range(values: Values) -> str:
    return (
        "The localizer over one gallery of all test towns.\n\n"
        "![share of frames within 80 m over time](results/long-range/curves.png)\n\n" + _arms(values)
    )


def _long_range_today(values: Values) -> str:
    return (
        "The localizer over one gallery of all test towns, on the dataset of this version: `x2l evaluate town "
        "--protocol long-range --no-tracking --arms SWRL --arms once --data data/standard`.\n\n" + _arms(values)
    )


def _long_range_beside_garet(values: Values) -> str:
    return (
        "Our objective beside GAReT's on the dataset of this version, each frame by itself as in the paper, regions by "
        "s_mix and by s_g: `x2l evaluate town runs/town-garet/bundle --protocol long-range --no-tracking --data "
        "data/standard`.\n\n"
        "![share of frames within 80 m over time](results/long-range-garet/curves.png)\n\n" + _arms(values)
    )


def _long_range_on_regions(values: Values) -> str:
    return (
        "The paper's setting, beside GAReT's objective: the dataset's own regions, and tiles centred on the places "
        "where other cameras were; each frame by itself: `x2l evaluate town runs/town-garet/bundle --protocol "
        "long-range --gallery dataset --no-tracking --data data/standard`.\n\n"
        "![share of frames within 80 m over time](results/long-range-dataset/curves.png)\n\n" + _arms(values)
    )


def _tracking(values: Values) -> str:
    return (
        f"{values['rides']} long drives followed by odometry, on one map of all test towns"
        f"{off_map(values['foreign_rides'])}.\n\n"
        "![share of frames within 80 m over time](results/tracking/curves.png)\n\n"
        + tracking_tables.table_text(tracking_tables.from_values(values["rows"]))
    )


def _tracking_terms(values: Values) -> str:
    return (
        f"The first {values['rides']} of these drives, with some of the map left out, degraded, or smoothed: "
        f"`x2l evaluate town --protocol tracking --data data/standard --rides {values['rides']}`.\n\n"
        + tracking_tables.table_text(tracking_tables.from_values(values["rows"]))
    )


def _tracking_with_eye(values: Values) -> str:
    command = (
        "x2l evaluate eye --protocol tracking --data data/standard --foreign data/foreign "
        '--arms "sensors, tiles and roads"'
    )
    return (
        "The same drives with the bundle `eye` and the tracker of this version, by odometry of sensors: "
        f"`{command}`; {values['rides']} drives{off_map(values['foreign_rides'])}. The table above is of the bundle "
        "`town` and of an earlier tracker.\n\n"
        + tracking_tables.table_text(tracking_tables.from_values(values["rows"]))
    )


def _tracking_terms_with_eye(values: Values) -> str:
    command = f"x2l evaluate eye --protocol tracking --data data/standard --rides {values['rides']}"
    return (
        f"The first {values['rides']} of these drives, by odometry of sensors and by that from their videos, filmed at "
        f"6 frames a second; with some of the map left out, degraded, or smoothed: `{command}`.\n\n"
        + tracking_tables.table_text(tracking_tables.from_values(values["rows"]))
    )


def off_map(rides: int) -> str:
    """How many drives were off the map."""
    return f"; {rides} more are off the map" if rides else ""


def _arms(values: Values) -> str:
    rows = tuple(ArmRow(**row) for row in values["rows"])
    return table_text(LongRange(rows, values["gains"], values["curves"], values["reliability"]))


DRIVE_SECTIONS = (
    Section("Long range", "long-range", _long_range),
    Section("Long range on drives as cars drive", "long-range-today", _long_range_today, optional=True),
    Section("Long range beside GAReT's objective", "long-range-garet", _long_range_beside_garet, optional=True),
    Section("Temporal decoding on long drives", "decoding-long", _decoding_long, optional=True),
    Section("Long range on the dataset's regions", "long-range-dataset", _long_range_on_regions),
    Section("Tracking", "tracking", _tracking),
    Section("Tracking with the eye", "tracking-eye", _tracking_with_eye, optional=True),
    Section("Tracking with the eye, each term left out", "tracking-eye-terms", _tracking_terms_with_eye, optional=True),
    Section("Tracking, each term left out", "tracking-terms", _tracking_terms, optional=True),
)
