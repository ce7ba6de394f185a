"""What a job may use of a machine. Never part of a stage's key: results do not depend on it, except for ``threads``."""

from __future__ import annotations

from pydantic import Field

from genrec_unlearn_bench.config import StrictModel

__all__ = ["Resources"]


class Resources(StrictModel):
    """Limits and needs of one job. What is None is taken from records of earlier runs, or not limited."""

    cores: int = Field(default=1, ge=1)
    """CPU cores it is given, which is also its number of threads unless the request says otherwise."""
    gpus: int = Field(default=0, ge=0)
    """GPUs it is given; more than one starts as many processes through accelerate."""
    fsdp: bool = False
    """Whether the blocks of the model are split over its GPUs (accelerate's FSDP), for trainings of ``mor`` that one
    GPU cannot hold."""
    memory_mib: int | None = Field(default=None, ge=1)
    """Resident memory it needs. Two jobs start together only if the machine has room for both, and a job that grows
    beyond it is stopped."""
    minutes: float | None = Field(default=None, gt=0)
    """Wall-clock after which it is stopped."""
