"""``bench doctor``: is this installation able to run, and with what? Changes nothing."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.console import print_json, stdout
from genrec_unlearn_bench.cli.faults import handled
from genrec_unlearn_bench.cli.show import local_folder
from genrec_unlearn_bench.config import StrictModel

__all__ = ["Finding", "doctor", "examine"]


class Finding(StrictModel):
    """One thing that was looked at."""

    subject: str
    state: Literal["ok", "note", "fault"]
    says: str


@handled
def doctor(
    data_dir: options.DataDir = None,
    cache_dir: options.CacheDir = None,
    network: Annotated[bool, typer.Option("--network", help="Also ask whether the model hub can be reached.")] = False,
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Look at versions, threads, devices, disk, cache, data and encoders; exit code 1 if something is at fault."""
    found = examine(data_dir, cache_dir, network=network)
    if as_json:
        print_json([finding.model_dump(mode="json") for finding in found])
    else:
        from rich import box
        from rich.table import Table

        table = Table(box=box.SIMPLE, show_header=False, padding=(0, 1))
        for finding in found:
            table.add_row(finding.subject, finding.state, finding.says)
        stdout().print(table)
    if any(finding.state == "fault" for finding in found):
        raise typer.Exit(1)


def examine(data_dir: Path | None, cache_dir: Path | None, *, network: bool) -> list[Finding]:
    """All findings, in the order in which they are shown."""
    from genrec_unlearn_bench.store.store import default_cache

    cache = cache_dir or default_cache()
    return [
        *_versions(),
        *_machine(),
        *_storage(cache),
        *_data(data_dir),
        *_encoders(network=network),
    ]


def _versions() -> list[Finding]:
    from importlib import metadata

    from packaging.requirements import Requirement

    out = [Finding(subject="python", state="ok", says=sys.version.split()[0])]
    for line in metadata.requires("genrec-unlearn-bench") or []:
        needed = Requirement(line)
        if needed.marker is not None and not needed.marker.evaluate({"extra": ""}):
            continue
        try:
            version = metadata.version(needed.name)
        except metadata.PackageNotFoundError:
            out.append(Finding(subject=needed.name, state="fault", says=f"not installed, {needed.specifier} is needed"))
            continue
        fits = needed.specifier.contains(version, prereleases=True)
        says = version if fits else f"{version}, but {needed.specifier} is needed"
        out.append(Finding(subject=needed.name, state="ok" if fits else "fault", says=says))
    return [*out, *_pinned()]


def _pinned() -> list[Finding]:
    """Deviations from the versions that results are reproduced with."""
    from genrec_unlearn_bench.pipeline.environment import version_mismatches

    different = version_mismatches(None)
    says = ", ".join(map(str, different)) if different else "all installed versions are the locked ones"
    return [Finding(subject="lock", state="note" if different else "ok", says=says)]


def _machine() -> list[Finding]:
    import torch

    from genrec_unlearn_bench.pipeline.environment import arithmetic, default_threads

    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    how = ", ".join(f"{name} {value}" for name, value in arithmetic().items())
    return [
        Finding(subject="arithmetic", state="ok", says=how),
        Finding(
            subject="threads", state="ok", says=f"{default_threads()} by default, torch has {torch.get_num_threads()}"
        ),
        Finding(subject="gpu", state="ok" if gpus else "note", says=", ".join(gpus) or "none: runs use the CPU"),
    ]


def _storage(cache: Path) -> list[Finding]:
    place = next((folder for folder in (cache, *cache.parents) if folder.is_dir()), Path("/"))
    free = shutil.disk_usage(place).free / (1 << 30)
    used = (
        sum(path.stat().st_size for path in cache.rglob("*") if path.is_file()) / (1 << 20) if cache.is_dir() else 0.0
    )
    quarantine = list((cache / "quarantine").glob("*"))
    out = [
        Finding(subject="cache", state="ok", says=f"{cache}: {used:.0f} MiB"),
        Finding(subject="free disk", state="ok" if free > 2 else "fault", says=f"{free:.1f} GiB beside the cache"),
    ]
    if quarantine:
        says = f"{len(quarantine)} damaged stages in {cache / 'quarantine'}; check the disk, then remove them"
        out.append(Finding(subject="quarantine", state="note", says=says))
    return out


def _data(data_dir: Path | None) -> list[Finding]:
    from genrec_unlearn_bench.data.catalogue import datasets

    out = []
    for spec in datasets(data_dir).values():
        if spec.format == "demo":
            out.append(Finding(subject=f"data {spec.name}", state="ok", says="generated, needs no files"))
            continue
        folder = local_folder(spec, data_dir)
        public = all(file.url for file in spec.files)
        absent = "not here; public, fetched when it is needed" if public else "not here; see bench show " + spec.name
        out.append(
            Finding(
                subject=f"data {spec.name}", state="ok" if folder else "note", says=str(folder) if folder else absent
            )
        )
    return out


def _encoders(*, network: bool) -> list[Finding]:
    from importlib.util import find_spec

    from genrec_unlearn_bench.errors import BenchError
    from genrec_unlearn_bench.features.encoder_spec import minilm_folder

    out = [Finding(subject="encoder tfidf", state="ok", says="always there")]
    try:
        out.append(Finding(subject="encoder minilm", state="ok", says=str(minilm_folder())))
    except BenchError as fault:
        out.append(Finding(subject="encoder minilm", state="note", says=f"{fault.what}; {fault.hint}"))
    there = find_spec("sentence_transformers") is not None
    says = "sentence-transformers is installed" if there else "not installed: pip install 'genrec-unlearn-bench[text]'"
    out.append(Finding(subject="encoder hub", state="ok" if there else "note", says=says))
    return [*out, _hub()] if network else out


def _hub() -> Finding:
    import urllib.error
    import urllib.request

    address = "https://huggingface.co"
    try:
        with urllib.request.urlopen(address, timeout=10):
            return Finding(subject="hub", state="ok", says=f"{address} answers")
    except (urllib.error.URLError, OSError) as fault:
        return Finding(subject="hub", state="note", says=f"{address} cannot be reached: {fault}")
