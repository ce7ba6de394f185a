"""``bench doctor``: is this installation able to run, and with what? Changes nothing."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

from typer import Option

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.command import Output, sheet
from genrec_unlearn_bench.data.catalogue import datasets
from genrec_unlearn_bench.data.locate import local_folder
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.store.store import default_cache

HUB = "https://huggingface.co"


class Finding(NamedTuple):
    """The state of one thing that runs need: ``ok``, ``note`` or ``fault``."""

    subject: str
    state: str
    says: str


def doctor(
    data_dir: options.DataDir = None,
    cache_dir: options.CacheDir = None,
    network: Annotated[bool, Option("--network", help="Also ask whether the model hub can be reached.")] = False,
) -> Output:
    """Look at versions, threads, devices, disk, cache, data and encoders; exit code 1 if something is at fault."""

    parts = (_versions(), _machine(), _storage(cache_dir or default_cache()), _data(data_dir), _encoders())
    found = [finding for part in (*parts, _hub() if network else ()) for finding in part]
    faulty = any(finding.state == "fault" for finding in found)
    return Output([finding._asdict() for finding in found], [sheet(found)], exit_code=int(faulty))


def _versions() -> Iterator[Finding]:
    from importlib import metadata

    from packaging.requirements import Requirement

    from genrec_unlearn_bench.pipeline.environment import version_mismatches

    yield Finding("python", "ok", sys.version.split()[0])
    for line in metadata.requires("genrec-unlearn-bench") or []:
        needed = Requirement(line)
        if needed.marker is not None and not needed.marker.evaluate({"extra": ""}):
            continue
        try:
            version = metadata.version(needed.name)
        except metadata.PackageNotFoundError:
            yield Finding(needed.name, "fault", f"not installed, {needed.specifier} is needed")
            continue
        fits = needed.specifier.contains(version, prereleases=True)
        says = version if fits else f"{version}, but {needed.specifier} is needed"
        yield Finding(needed.name, "ok" if fits else "fault", says)
    different = version_mismatches(None)
    says = ", ".join(map(str, different)) or "all installed versions are the locked ones"
    yield Finding("lock", "note" if different else "ok", says)


def _machine() -> Iterator[Finding]:
    import torch

    from genrec_unlearn_bench.pipeline.environment import arithmetic, default_threads

    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    yield Finding("arithmetic", "ok", ", ".join(f"{name} {value}" for name, value in arithmetic().items()))
    yield Finding("threads", "ok", f"{default_threads()} by default, torch has {torch.get_num_threads()}")
    yield Finding("gpu", "ok" if gpus else "note", ", ".join(gpus) or "none: runs use the CPU")


def _storage(cache: Path) -> Iterator[Finding]:
    place = next((folder for folder in (cache, *cache.parents) if folder.is_dir()), Path("/"))
    free = shutil.disk_usage(place).free / (1 << 30)
    used = sum(path.stat().st_size for path in cache.rglob("*") if path.is_file()) / (1 << 20)
    yield Finding("cache", "ok", f"{cache}: {used:.0f} MiB")
    yield Finding("free disk", "ok" if free > 2 else "fault", f"{free:.1f} GiB beside the cache")
    if quarantine := list((cache / "quarantine").glob("*")):
        says = f"{len(quarantine)} damaged stages in {cache / 'quarantine'}; check the disk, then remove them"
        yield Finding("quarantine", "note", says)


def _data(data_dir: Path | None) -> Iterator[Finding]:

    for spec in datasets(data_dir).values():
        folder = local_folder(spec, data_dir)
        if spec.format == "demo":
            says = "generated, needs no files"
        elif folder is not None:
            says = str(folder)
        elif all(file.url for file in spec.files):
            says = "not here; public, fetched when it is needed"
        else:
            says = f"not here; see bench show {spec.name}"
        yield Finding(f"data {spec.name}", "note" if says.startswith("not here") else "ok", says)


def _encoders() -> Iterator[Finding]:
    from genrec_unlearn_bench.features.encoder_spec import minilm_folder

    yield Finding("encoder tfidf", "ok", "always there")
    try:
        yield Finding("encoder minilm", "ok", str(minilm_folder()))
    except BenchError as fault:
        yield Finding("encoder minilm", "note", f"{fault.what}; {fault.hint}")
    yield Finding("encoder hub", "ok", "sentence-transformers is installed")


def _hub() -> Iterator[Finding]:
    from urllib.request import urlopen

    try:
        with urlopen(HUB, timeout=10):
            yield Finding("hub", "ok", f"{HUB} answers")
    except OSError as fault:
        yield Finding("hub", "note", f"{HUB} cannot be reached: {fault}")
