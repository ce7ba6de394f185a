"""A submitted method's cell, run so that no retrained model is in its reach: the method first, the oracle afterwards.

1. What the method starts from (dataset, task, features, IDs, original) is made or taken from the cache, without the
   method: its file is not even imported.
2. A process of its own runs the method on a copy of these stages. It ends before anything goes on. Its sandbox, made
   with bubblewrap, shows its inputs, the dataset's files, the Python environment and nothing else: no network, a
   read-only system, a private ``/tmp``, no home folder, no cache, no published result; one folder may be written. What
   a kernel lets out, this does not hold (leaderboard/RULES.md).
3. Of what it wrote, the unlearned model alone is taken over, plain files without links. Oracles, evaluation and
   measurements follow here, again without the method's code: a stand-in with its name and configuration fits the keys.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path

from pydantic import ConfigDict

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.data.catalogue import SPEC_FILE
from genrec_unlearn_bench.data.locate import locate
from genrec_unlearn_bench.errors import BenchError, UsageError, printable
from genrec_unlearn_bench.features.encoder_spec import EncoderSpec
from genrec_unlearn_bench.pipeline.environment import determinism
from genrec_unlearn_bench.pipeline.graph import build_result
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.resolve import ConfigSource, ResolvedRequest, resolve
from genrec_unlearn_bench.pipeline.results import FinishedRun
from genrec_unlearn_bench.pipeline.run import run_resolved
from genrec_unlearn_bench.pipeline.stage import Stage, StageContext, materialise, topological
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.registry import find_method, source_digest
from genrec_unlearn_bench.store.store import StageStore
from genrec_unlearn_bench.unlearning.method import MethodConfig, UnlearningMethod
from genrec_unlearn_bench.unlearning.request import ForgetRequest

METHOD_STAGES = frozenset({"unlearned", "stream"})
"""Stages that the method's own code makes."""
REQUEST, METHOD, CACHE = "request.json", "method.py", "cache"
"""What the folder of inputs holds."""
LARGEST = 64 << 30
"""Bytes of an unlearned model that are taken over."""

INSTALLED = ("site-packages", "dist-packages")
PACKAGES = ("genrec_unlearn_bench", *(f"genrec_unlearn_bench.{name}" for name in ("methods", "tasks", "leaderboard")))
"""Packages of the suite; those of content may lie next to the engine's folder (``package-dir``)."""
PUBLISHED = ("results", "submissions", "published", "site", "health")
"""Folders of the leaderboard that are empty inside: they hold numbers of retrained models."""
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/ld.so.conf.d", "/etc/localtime")
KERNELS = ("ATEN_CPU_CAPABILITY", "OPENBLAS_CORETYPE")
KEPT = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUBLAS_WORKSPACE_CONFIG", "LANG", *KERNELS)
"""Environment variables that may change a number or a text."""
SHOWN = 2000
"""Last bytes of what a failed process wrote."""


class _AnyConfig(MethodConfig):
    model_config = ConfigDict(extra="allow")


class _StandIn(UnlearningMethod[_AnyConfig]):
    """In place of the submitted method wherever its code may not run."""

    name = ""

    def unlearn(self, recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        raise BenchError("the method's process made no model of the key that the record asks for")


def run_isolated(
    request: RunRequest, source: ConfigSource, store: StageStore, progress: Progress, *, sandboxed: bool, seconds: float
) -> FinishedRun:
    """Run a cell of a method that is not trusted.

    Args:
        source: The record's own configuration.
        store: Must not hold the method's own stages; what it holds of others is used.
        sandboxed: False runs the method's process with this user's rights, for code that is trusted.
        seconds: After so long the method is ended.

    Raises UsageError where the sandbox does not work or shadow models would call the method, BenchError where it fails.
    """
    if sandboxed:
        check_sandbox()
    if request.shadows:
        raise UsageError("shadow models call the method, which is not done in isolation", hint="leave out --shadows")
    resolved = _without_code(request, source)
    context = StageContext(store, progress, device=resolved.device)
    stages = topological([build_result(resolved, progress=progress).inputs["row"]])
    given = [stage for stage in stages if stage.name not in METHOD_STAGES]
    with determinism(resolved.threads):
        for stage in given:
            materialise(stage, context)
    with tempfile.TemporaryDirectory(prefix="bench-isolated-") as folder:
        inputs, out = (Path(folder).resolve() / name for name in ("inputs", "out"))
        out.mkdir()
        data, readable = _source_files(resolved, progress)
        _write_inputs(resolved, given, context, inputs, data)
        progress.info(f"{resolved.entry.name}: unlearning {'in the sandbox' if sandboxed else 'without a sandbox'}")
        code = f"from {__name__} import unlearn_apart; unlearn_apart()"
        if (engine := Path(__file__).parents[2]).name not in INSTALLED:
            # This checkout, and no other one that is installed.
            code = f"import sys; sys.path.insert(0, {str(engine)!r}); {code}"
        run_apart(code, inputs, out, sandboxed=sandboxed, readable=readable, seconds=seconds)
        for stage in stages:
            if stage.name in METHOD_STAGES:
                _take_over(stage, StageStore(out), context)
    return run_resolved(resolved, context)


def unlearn_apart() -> None:
    """In the method's process: make the row from the stages that are given, and store it in the output folder."""
    inputs, out = map(Path, sys.argv[1:])
    content = json.loads((inputs / REQUEST).read_text(encoding="utf-8"))
    request = RunRequest.model_validate(content["request"])
    request = request.model_copy(update={"method": str(inputs / request.method)})
    try:
        resolved = resolve(request, source=ConfigSource(**content["source"]))
        # The features are made, and their encoder need not be there: it is only named in their key.
        resolved = replace(resolved, encoder=EncoderSpec(**content["encoder"]))
        row = build_result(resolved, download=False).inputs["row"]
        store = StageStore(out, shared=inputs / CACHE)
        with determinism(resolved.threads):
            materialise(row, StageContext(store, device=resolved.device))
    except BenchError as fault:
        sys.exit(fault.render())


def _without_code(request: RunRequest, source: ConfigSource) -> ResolvedRequest:
    """The resolved request with a stand-in for its method, whose file is read and not imported."""
    entry = find_method(request.method)
    shared = resolve(request.model_copy(update={"method": "original"}), source=ConfigSource())
    config = _AnyConfig(**source.fields)
    kind = type("StandIn", (_StandIn,), {"name": entry.variant_of or entry.name, "Config": _AnyConfig})
    return replace(
        shared,
        request=request.model_copy(update={"scale": shared.scale.value}),
        entry=entry,
        method=kind(config),
        method_config=config,
        method_digest=source_digest(entry),
        source=source,
    )


def _write_inputs(
    resolved: ResolvedRequest, given: Sequence[Stage], context: StageContext, inputs: Path, data: Path | None
) -> None:
    """The method's file, the request on the data in that folder, and a store with the stages that it starts from."""
    path, source = resolved.entry.source, resolved.source
    if path is None:
        raise UsageError(f"{resolved.entry.name!r} has no file to run")
    inputs.mkdir()
    shutil.copyfile(path, inputs / METHOD)
    method = f"{METHOD}:{resolved.entry.target.rpartition(':')[2]}"
    # The sandbox has another home folder, and none of the variables that say where data lie.
    changes = {"data_dir": data, "encoder": "tfidf", "method": method}
    request = resolved.request.model_copy(update=changes).model_dump(mode="json", exclude={"results_dir"})
    fields = {"name": source.name, "fields": dict(source.fields), "where": source.where}
    content = {"request": request, "source": fields, "encoder": resolved.encoder.model_dump(mode="json")}
    (inputs / REQUEST).write_text(json.dumps(content), encoding="utf-8")
    store = StageStore(inputs / CACHE)
    for stage in given:
        shutil.copytree(context.stored(stage).path, store.folder(stage.name, stage.key))


def _source_files(resolved: ResolvedRequest, progress: Progress) -> tuple[Path | None, list[Path]]:
    """The dataset's folder, None for the demo; and files whose digests are in keys: folders may hold a cache, too."""
    checkpoint: str | None = getattr(resolved.backbone_config, "checkpoint", None)
    files = [path for path in Path(checkpoint).rglob("*") if path.is_file()] if checkpoint else []
    files += filter(None, [resolved.request.sids])
    if resolved.dataset.format == "demo":
        return None, files
    located = locate(resolved.dataset, resolved.request.data_dir, progress)
    names = [path.relative_to(located.folder) for paths in located.parts.values() for path in paths]
    folder = located.folder.resolve()
    return folder, [*files, *(path for name in (*names, Path(SPEC_FILE)) if (path := folder / name).is_file())]


def _take_over(stage: Stage, there: StageStore, context: StageContext) -> None:
    """Copy a stage that the method's process made into the run's store, as one that was computed.

    Links are refused: one to the cache's retrained model would be read with our rights.
    """
    source = there.folder(stage.name, stage.key)
    for path in (source, *source.rglob("*")) if source.is_dir() else ():
        status = path.lstat()
        plain = stat.S_ISDIR(status.st_mode) or (stat.S_ISREG(status.st_mode) and status.st_size <= LARGEST)
        if not plain or path.resolve() != path:
            place = ascii(path.relative_to(source.parent).as_posix())
            raise BenchError(f"the method's process left something that is no plain file: {place}")
    if source.is_dir():
        target = context.store.folder(stage.name, stage.key)
        shutil.copytree(source, target, symlinks=True, copy_function=shutil.copyfile)
    if (found := context.store.find(stage.name, stage.key)) is not None:
        context.cache.stages[stage.key] = found
        context.made.add(stage.key)


def run_apart(
    code: str, inputs: Path, out: Path, *, sandboxed: bool, readable: Iterable[Path] = (), seconds: float
) -> None:
    """Run Python code in a process of its own, with the folders of inputs and outputs as its arguments.

    Args:
        readable: Further files that the sandbox may read, under their own names; its working folder holds no others.

    Raises BenchError where it failed (with its last lines) or timed out.
    """
    command = [sys.executable, "-P", "-c", code, str(inputs), str(out)]
    if sandboxed:
        binds = ["--ro-bind", str(inputs), "/inputs", "--bind", str(out), "/out"]
        binds += [word for path in readable for word in _readable(path.absolute())]
        binds += ["--dir", os.getcwd(), "--chdir", os.getcwd()]
        command = [*_bwrap(), *binds, "--", *command[:-2], "/inputs", "/out"]
    # Not into memory: whoever writes there may never stop.
    with tempfile.TemporaryFile() as log:
        try:
            done = subprocess.run(  # noqa: S603 - the interpreter, with arguments made here
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                timeout=seconds,
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise BenchError(f"the method was still running after {seconds:.0f} s, and was ended") from None
        if done.returncode:
            log.seek(max(0, log.seek(0, os.SEEK_END) - SHOWN))
            lines = log.read().decode("utf-8", "replace").strip().splitlines()
            last = "".join(f"\n  | {printable(line)[:200]}" for line in lines)
            raise BenchError(f"the method's process failed with exit code {done.returncode}:{last}")


def check_sandbox() -> None:
    """Raises UsageError where there is no working sandbox."""
    if fault := sandbox_fault():
        raise UsageError(
            f"there is no sandbox to run a submitted method in: {fault}",
            hint="install bubblewrap and allow unprivileged user namespaces, or give --no-sandbox for code you trust",
        )


@cache
def sandbox_fault() -> str:
    """Why the sandbox does not work here; empty where it does."""
    if not sys.platform.startswith("linux") or shutil.which("bwrap") is None:
        return "bubblewrap (bwrap, for Linux) is not installed"
    try:
        done = subprocess.run([*_bwrap(), "--", "true"], capture_output=True, timeout=60, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as fault:
        return f"bwrap cannot be run: {fault}"
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return "" if done.returncode == 0 else printable((lines or ["bwrap failed"])[0])


def _bwrap() -> list[str]:
    words = ["bwrap", "--unshare-all", "--unshare-user", "--cap-drop", "ALL", "--die-with-parent", "--new-session"]
    words += ["--clearenv", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]  # noqa: S108
    for place in SYSTEM:
        path = Path(place)
        if path.is_symlink():
            words += ["--symlink", os.readlink(path), place]
        elif path.exists():
            words += _readable(path)
    installed = [path for path in map(Path, sys.path) if path.name in INSTALLED]
    packages = [Path(str(resources.files(name))) for name in PACKAGES]
    python = {path for path in (Path(sys.base_prefix), Path(sys.prefix), *installed, *packages) if path.is_dir()}
    # Sorted, so that a folder is bound before those in it.
    for path in sorted(path for path in python if Path("/usr") not in (path, *path.parents)):
        words += _readable(path)
    for published in (folder / name for folder in packages for name in PUBLISHED if folder.name == "leaderboard"):
        words += ["--tmpfs", str(published)] if published.is_dir() else []
    variables = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "USER": "bench", "PYTHONDONTWRITEBYTECODE": "1"}  # noqa: S108
    variables |= {name: os.environ[name] for name in KEPT if name in os.environ}
    for name, value in variables.items():
        words += ["--setenv", name, value]
    return words


def _readable(path: Path) -> list[str]:
    return ["--ro-bind", str(path), str(path)]
