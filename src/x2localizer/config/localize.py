"""Settings of localizers: how cameras move, windows, and the belief of the tracker."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from x2localizer.config.base import Settings

MOTIONS: dict[str, dict[str, Any]] = {
    # Standing is made rarer than it is: it lets a tile that resembles everything hold the belief.
    "car": {"speeds_m_s": (0.0, 8.0, 13.0), "speed_shares": (0.05, 0.35, 0.6), "turn_share": 0.12,
            "cruise_m_s": 23.0, "top_m_s": 45.0, "slack_m": 200.0},
    "robot": {"speeds_m_s": (0.0, 0.6, 1.5), "speed_shares": (0.1, 0.4, 0.5), "turn_share": 0.2,
              "cruise_m_s": 2.5, "top_m_s": 6.0, "slack_m": 100.0},
    "person": {"speeds_m_s": (0.0, 0.8, 1.4), "speed_shares": (0.1, 0.3, 0.6), "turn_share": 0.2,
               "cruise_m_s": 2.0, "top_m_s": 8.0, "slack_m": 100.0},
}  # fmt: skip
"""How things that carry cameras move. Only the car's figures were fitted, on drives through validation towns."""


class MotionSettings(Settings):
    """How the camera may move. ``kind`` sets everything else; single values can be changed."""

    kind: Literal["car", "robot", "person"] = "car"
    speeds_m_s: tuple[float, ...] = MOTIONS["car"]["speeds_m_s"]
    """Speeds that a belief moves at, in metres per second."""
    speed_shares: tuple[float, ...] = MOTIONS["car"]["speed_shares"]
    """How probable each of them is in any second."""
    turn_share: float = Field(MOTIONS["car"]["turn_share"], ge=0, le=1)
    """Probability of turning by 45 degrees, left or right, in any second."""
    cruise_m_s: float = Field(MOTIONS["car"]["cruise_m_s"], gt=0)
    """The fastest ordinary speed: how far apart the tiles of two keyframes may lie, along each axis."""
    top_m_s: float = Field(MOTIONS["car"]["top_m_s"], gt=0)
    """The speed that is never exceeded: how far the camera may be from its last fix."""
    slack_m: float = Field(MOTIONS["car"]["slack_m"], ge=0)
    """Error of a last fix, in metres, that is added to how far the camera may have come."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, values: Any) -> Any:
        """Take what is not given from the kind."""
        if not isinstance(values, dict):
            return values
        return {**MOTIONS.get(str(values.get("kind", "car")), {}), **values}

    @model_validator(mode="after")
    def _fits(self) -> MotionSettings:
        """One share for each speed, and together all of them."""
        if len(self.speeds_m_s) != len(self.speed_shares) or not self.speeds_m_s:
            raise ValueError("speeds_m_s and speed_shares must have the same length")
        if min(self.speeds_m_s) < 0 or min(self.speed_shares) < 0 or abs(sum(self.speed_shares) - 1.0) > 1e-6:
            raise ValueError("speeds must not be negative, and speed_shares must add up to 1")
        return self


class LocalizeSettings(Settings):
    """From frames to fixes."""

    policy: str = "swrl"
    """When to search: swrl searches every window again, once lets the first window decide."""
    frame_spacing_s: float = Field(1.0, gt=0, le=3600)
    keyframe_spacing_s: float = Field(5.0, gt=0, le=3600)
    """Seconds between the keyframes of a window."""
    window_s: float = Field(20.0, gt=0, le=86_400)
    """Seconds between the starts of two windows."""
    budget: int = Field(8, ge=1, le=1024)
    """Keyframes in a window; tau in the paper."""
    similarity: str = "s_path"
    """How regions are ranked. s_path adds up the odds of all paths through a region's tiles and needs only the frames'
    image codes; s_mix is the paper's similarity, in which the best frame decides, and needs set codes."""
    candidates: int = Field(10, ge=1, le=10_000)
    """Regions whose tiles a frame is matched with; K_c in the paper."""
    matching: Literal["path", "frame", "decoder"] = "path"
    """frame: the best tile of each frame by itself, as in the paper; path: tiles must be reachable from each other;
    decoder: a trained decoder chooses among each frame's best tiles, given its earlier choices."""
    motion: MotionSettings = MotionSettings()
    """How the camera may move."""
    sharpness: float = Field(6.0, gt=0)
    """Path matching: weight of a frame's similarities, as log-probability per unit."""
    recall_weight: float = Field(40.0, ge=0)
    """Path matching: weight of the regions' similarities, as log-probability per unit."""
    restart_share: float = Field(0.1, ge=0, le=1)
    """Path matching: share of the belief that each search spreads over the candidates again."""
    teleport_probability: float = Field(1e-3, ge=0, le=1)
    """Path matching: share of the belief that each frame spreads over all tiles."""
    gap_s: float = Field(8.0, gt=0)
    """Seconds without a usable frame after which the window starts again."""


class TrackSettings(Settings):
    """The belief over poses, and how much each term of evidence counts."""

    frame_spacing_s: float = Field(1.0, gt=0, le=3600)
    """Seconds between frames that are compared with tiles."""
    step_s: float = Field(0.5, gt=0, le=60)
    """Seconds of odometry that poses are moved by at once."""
    use_tiles: bool = True
    use_roads: bool = True
    off_map: float = Field(0.3, gt=0, lt=1)
    """Probability of not being on the map, before anything was seen."""
    pose_spacing_m: float = Field(2.5, gt=0, le=3600)
    """Distance of the poses along roads at the start, in both directions."""
    most_poses: int = Field(700_000, ge=1000, le=20_000_000)
    start_poses: int = Field(250_000, ge=1000, le=20_000_000)
    """At least so many at the start, however small the map is."""
    more_on_tiles: float = Field(3.0, ge=1)
    """So many times as many at the start without roads; those that the first frames speak for are kept."""
    least_poses: int = Field(6_000, ge=100)
    unclear_poses: int = Field(80_000, ge=100)
    """At least so many while several places are possible: a place that has lost its last pose is lost."""
    poses_per_cell: int = Field(150, ge=1)
    """Poses for each half tile that may hold the camera; they become fewer as the belief narrows."""
    trust_tiles: float = Field(0.5, ge=0, le=1)
    """Share of the poses that believe the tiles at the start; the others wait for roads and turns alone."""
    tile_weight: float = Field(0.55, ge=0)
    """Weight of a frame's evidence: neighbouring frames are not independent."""
    tile_apart_m: float = Field(10.0, gt=0)
    """Distance after which a frame counts in full."""
    temperature: float = Field(0.06, gt=0)
    """Of the softmax over tiles, where they fit well."""
    temperature_most: float = Field(0.14, gt=0)
    temperature_slope: float = Field(0.6, ge=0)
    good_similarity: float = 0.85
    """Similarity of the best tiles at which they fit well."""
    tile_error_share: float = Field(0.1, gt=0, lt=1)
    """Probability that a frame tells nothing of its place."""
    tile_level: float = Field(0.5, ge=0, le=1)
    """Share of a frame's information that being off the map explains."""
    road_weight: float = Field(0.5, ge=0)
    """Weight of ten metres of driving."""
    road_sd_m: float = Field(7.0, gt=0)
    """How far from the middle of its road a car drives, the error of the map included."""
    road_sd_deg: float = Field(20.0, gt=0)
    junction_share: float = Field(0.12, ge=0, le=1)
    """What driving across a road counts against driving along it."""
    off_road_share: float = Field(0.03, gt=0, lt=1)
    """What being far from any road counts: parking lots, missing roads, ferries."""
    road_level: float = -0.4
    """Logarithm of what "not on this map" counts as while driving straight."""
    road_level_in_turns: float = -1.0
    """What is added to it in a turn of 60 degrees or more."""
    scatter_m: float = Field(1.0, ge=0)
    """How far poses are scattered when they are drawn again."""
    scatter_deg: float = Field(0.6, ge=0)
    scatter_scale: float = Field(0.003, ge=0)
    scatter_bias_deg_s: float = Field(0.02, ge=0)
    change_trust: float = Field(0.01, ge=0, le=1)
    gap_s: float = Field(3.0, gt=0)
    """Seconds without odometry after which the camera may have gone anywhere in reach."""
    search_s: float = Field(60.0, gt=0)
    """Seconds after which a search of the whole map ends if it has found nothing: a second belief that starts again
    and must do better."""
    search_pause_s: float = Field(10.0, ge=0)
    """Seconds between the end of a search and the next."""
    search_gain: float = Field(3.0, ge=0)
    """By how much, in nats, a search must explain the drive better to replace the belief."""
    search_below: float = Field(0.95, ge=0, le=1)
    """The belief is in doubt, and the map is searched, while less of it lies around the best place. Not the confidence:
    that is fitted on drives, which must not depend on it."""
    motion: MotionSettings = MotionSettings()
    seed: int = Field(42, ge=0)
