"""``bench doctor``: is this installation able to run, with what, how fast and how exactly? Changes nothing."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.command import Output, card, sheet
from genrec_unlearn_bench.data.catalogue import datasets
from genrec_unlearn_bench.data.locate import is_local
from genrec_unlearn_bench.errors import BenchError, UsageError
from genrec_unlearn_bench.progress_display import format_bytes, progressing
from genrec_unlearn_bench.store.inventory import folder_size

Findings = Iterator[tuple[str, str, str]]
"""Subject, state (``ok``, ``note`` or ``fault``) and a text about one thing that runs need."""

LOGITS, LISTS = 1e-3, 0.99
"""Most that float32 may differ between devices by rounding: in logits, and in the share of equal lists."""


def doctor(
    run: Annotated[
        bool, Option("--run", help="Train, unlearn and attack on a device; compare it with the CPU.")
    ] = False,
    device: options.Device = "auto",
    data_dir: options.DataDir = None,
    cache_dir: options.CacheDir = None,
) -> Output:
    """Look at versions, threads, devices, disk, cache, data and encoders; exit code 1 if something is at fault.

    With --run: a few minutes of training, TRACER and relearning attacks on the demo. Speed, peak memory and number
    formats; what a repetition changes (noise); what the CPU makes of the same weights (cpu) and training (cpu_trained).
    """
    if run:
        return _on_device(device)
    if device != "auto":
        raise UsageError("--device is for --run", hint=f"bench doctor --device {device} --run")
    parts = (_versions(), _machine(), _storage(options.cache_root(cache_dir)), _data(data_dir), _encoders())
    found = [finding for part in parts for finding in part]
    content = [dict(zip(("subject", "state", "says"), one, strict=True)) for one in found]
    return Output(content, [sheet(found)], exit_code=int(any(state == "fault" for _, state, _ in found)))


def _on_device(device: str) -> Output:
    from genrec_unlearn_bench.contract.device import check_device
    from genrec_unlearn_bench.pipeline.environment import default_threads, describe, resolve_device

    device = resolve_device(device)
    environment = describe(device, threads=default_threads())
    with progressing() as progress:
        found = [{"check": one["check"], "state": _state(one), **one} for one in check_device(device, progress)]
    content = {"environment": environment.model_dump(mode="json"), "checks": found}
    view = {"checks": {one["check"]: {name: one[name] for name in one if name != "check"} for one in found}}
    shown = card(f"{device}: {environment.device_name}, {environment.threads} threads", content, view=view)
    return Output(content, shown.parts, exit_code=int(any(one["state"] == "fault" for one in found)))


def _state(found: dict[str, Any]) -> str:
    if "error" in found:
        return "fault"
    return "ok" if found.get("cpu_logits", 0) <= LOGITS and found.get("cpu_lists", 1) >= LISTS else "note"


def _versions() -> Findings:
    from packaging.requirements import Requirement

    from genrec_unlearn_bench.pipeline.environment import locked_versions, version_mismatches

    yield "python", "ok", sys.version.split()[0]
    for line in metadata.requires("genrec-unlearn-bench") or []:
        needed = Requirement(line)
        if needed.marker is not None and not needed.marker.evaluate({"extra": ""}):
            continue
        try:
            version = metadata.version(needed.name)
        except metadata.PackageNotFoundError:
            yield needed.name, "fault", f"not installed, {needed.specifier} is needed"
            continue
        fits = needed.specifier.contains(version, prereleases=True)
        says = version if fits else f"{version}, but {needed.specifier} is needed"
        yield needed.name, "ok" if fits else "fault", says
    different = version_mismatches(sorted(locked_versions()))
    found = [f"{name} {own} (lock {locked})" for name, (own, locked) in different.items()]
    says = ", ".join(found) or "all installed versions are the locked ones"
    yield "lock", "note" if different else "ok", says


def _machine() -> Findings:
    import torch

    from genrec_unlearn_bench.pipeline.environment import arithmetic, default_threads

    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    yield "arithmetic", "ok", ", ".join(f"{name} {value}" for name, value in arithmetic().items())
    yield "threads", "ok", f"{default_threads()} by default, torch has {torch.get_num_threads()}"
    yield "gpu", "ok" if gpus else "note", ", ".join(gpus) or "none: runs use the CPU"


def _storage(cache: Path) -> Findings:
    place = next((folder for folder in (cache, *cache.parents) if folder.is_dir()), Path("/"))
    free = shutil.disk_usage(place).free / (1 << 30)
    yield "cache", "ok", f"{cache}: {format_bytes(folder_size(cache))}"
    yield "free disk", "ok" if free > 2 else "fault", f"{free:.1f} GiB beside the cache"
    if quarantine := list((cache / "quarantine").glob("*")):
        says = f"{len(quarantine)} damaged stages in {cache / 'quarantine'}; check the disk, then remove them"
        yield "quarantine", "note", says


def _data(data_dir: Path | None) -> Findings:
    for spec in datasets(data_dir).values():
        here = is_local(spec, data_dir)
        yield f"data {spec.name}", "ok" if here else "note", "here" if here else f"not here; see bench show {spec.name}"


def _encoders() -> Findings:
    from genrec_unlearn_bench.features.encoder_spec import minilm_folder

    try:
        yield "encoder minilm", "ok", str(minilm_folder())
    except BenchError as fault:
        yield "encoder minilm", "note", f"{fault.what}; {fault.hint}"
