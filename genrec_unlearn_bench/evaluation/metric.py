"""Declaration of a metric (direction, range, unit, level, source) and one measured value of it."""

from __future__ import annotations

from enum import StrEnum

from genrec_unlearn_bench.config import StrictModel


class Better(StrEnum):
    """Direction in which a metric is better. ``ORACLE``: nearer to the retrained model."""

    HIGHER = "higher"
    LOWER = "lower"
    ORACLE = "oracle"
    NONE = "none"


class Level(StrEnum):
    """Subject of one value of a metric."""

    USER = "user"
    """One value per test example, averaged; recomputable from ``per_user.parquet``."""
    MODEL = "model"
    ITEM = "item"


class Group(StrEnum):
    """Test examples that a value is computed over."""

    FORGET = "forget"
    RETAIN = "retain"
    ALL = "all"
    """No side: a property of the model, the table or the run."""
    NEIGHBOURS = "retain-neighbours"
    REST = "retain-rest"
    NEAR = "retain-near"
    """Retain examples whose target is a text or co-purchase neighbour of the concept: fixed by the task."""


class MetricSpec(StrictModel):
    """Declaration of a metric."""

    name: str
    """Unique, lower case: hr@10, concept-rate@10, overlap.level1 …"""
    title: str
    """Column header: HR@10."""
    better: dict[Group, Better]
    """By group: the same metric is wanted low on forget users and high on retain users."""
    range: tuple[float, float] = (0.0, 1.0)
    """Smallest and largest possible value (infinities allowed)."""
    unit: str = "fraction"
    """fraction, cosine, nats, seconds, MiB …"""
    level: Level = Level.MODEL
    description: str
    """One sentence."""
    source: str
    """Paper and equation, or the protocol's section."""


class MetricValue(StrictModel):
    """One measured number."""

    metric: str
    group: Group
    value: float | None
    """None where it could not be measured; ``note`` then says why."""
    beam: int | None = None
    """Beam width the list was decoded with, for list metrics."""
    n: int | None = None
    """How many examples or items it was computed over."""
    sd: float | None = None
    """Spread over ``n``, where it is a mean of user values."""
    interval: tuple[float, float] | None = None
    """95 % interval, for the metrics that report one."""
    note: str | None = None
