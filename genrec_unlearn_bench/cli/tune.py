"""``bench tune``: choose a method's configuration on validation alone, and write the choice down for ``bench run``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.console import Group, RenderableType
from rich.text import Text
from typer import Option

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.command import Output, sheet, text_of
from genrec_unlearn_bench.cli.run import changed_fields
from genrec_unlearn_bench.config import named
from genrec_unlearn_bench.errors import BenchError, DataMissing, StorageError
from genrec_unlearn_bench.progress import Progress, launched, process_index
from genrec_unlearn_bench.progress_display import open_store

if TYPE_CHECKING:
    from genrec_unlearn_bench.pipeline.request import RunRequest
    from genrec_unlearn_bench.pipeline.tune import Tuned
    from genrec_unlearn_bench.store.store import StageStore
    from genrec_unlearn_bench.tuning.choice import Choice

Set = Annotated[list[str] | None, Option("--set", help="Keep a field at a value in all trials: key=value.")]
Seeds = Annotated[list[int] | None, Option("--seed", help="Tuning seeds, never reported (default: 9000).", min=0)]
TunedDir = Annotated[Path, Option(help="Where choices are written.", metavar="DIR")]
Fixed = Annotated[Path | None, Option(help="Also put the choices into this file of the ruleset fixed.", metavar="FILE")]


def tune(
    task: options.Task,
    method: options.Method,
    backbone: options.Backbones = ["tiger"],  # noqa: B006
    seed: Seeds = None,
    trials: Annotated[int, Option(help="Configurations that may be tried.", min=1, max=12)] = 12,
    scale: options.Scale = None,
    data_dir: options.DataDir = None,
    sids: options.Sids = None,
    encoder: options.Encoder = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    set_: Set = None,
    set_backbone: options.SetBackbone = None,
    set_sid: options.SetSid = None,
    max_hours: options.MaxHours = None,
    tuned_dir: TunedDir = Path("tuned"),
    fixed: Fixed = None,
    cache_dir: options.CacheDir = None,
) -> Output:
    """Try 12 configurations of a method and take one that forgets most while it keeps 97 % of the rest.

    Validation data decides, at seeds that are not reported. Finished trials are kept: the same call goes on after an
    interrupt. `bench run --ruleset tuned` reads the choice.
    """
    from genrec_unlearn_bench.pipeline.cells import expand_names
    from genrec_unlearn_bench.pipeline.request import TUNING_SEED, RunRequest

    shared = RunRequest(
        task=task,
        method="original",
        scale=scale,
        data_dir=data_dir,
        sids=sids,
        encoder=encoder,
        device=device,
        threads=threads,
        **changed_fields(set_, set_backbone, set_sid, max_hours=max_hours),
    )
    backbones, methods = expand_names(shared, named(backbone), named(method))
    runs = [shared.model_copy(update={"backbone": one, "method": name}) for one in backbones for name in methods]
    seeds = tuple(dict.fromkeys(seed or [TUNING_SEED]))
    with open_store(cache_dir) as (store, progress):
        progress.info(
            f"tuning uses seeds of its own ({', '.join(map(str, seeds))}), which no result reports: "
            "an original is trained for each of them first, unless it is in the cache"
        )
        tuned, failed = _tune(runs, store, progress, tuned_dir, seeds=seeds, limit=trials)
    if fixed is not None and tuned and process_index() == 0:
        from genrec_unlearn_bench.tuning.choice import update_fixed

        update_fixed(fixed, [(one.choice, one.changes) for one, _ in tuned])
    parts = [part for one, path in tuned for part in (_table(one.choice), f"  {path}\n")]
    content = [{"file": str(path), "choice": one.choice.model_dump(mode="json")} for one, path in tuned]
    faults = [f"error: {one.backbone}, {one.method}: {fault.render()}" for one, fault in failed]
    return Output(content, parts, max([0, *(fault.exit_code for _, fault in failed)]), faults)


def _tune(
    runs: Sequence[RunRequest], store: StageStore, progress: Progress, out: Path, *, seeds: Sequence[int], limit: int
) -> tuple[list[tuple[Tuned, Path]], list[tuple[RunRequest, BenchError]]]:
    from genrec_unlearn_bench.pipeline.stage import SessionCache
    from genrec_unlearn_bench.pipeline.tune import tune as tune_one
    from genrec_unlearn_bench.tuning.choice import choice_path, write_choice

    cache = SessionCache()
    tuned: list[tuple[Tuned, Path]] = []
    failed: list[tuple[RunRequest, BenchError]] = []
    for number, run in enumerate(runs, start=1):
        progress.info(f"[{number}/{len(runs)}] {run.task} · {run.backbone} · {run.method}")
        try:
            found = tune_one(run, store, progress, seeds=seeds, limit=limit, cache=cache)
        except (DataMissing, StorageError):
            raise
        except BenchError as fault:
            if launched() > 1 or len(runs) == 1:
                raise
            failed.append((run, fault))
            continue
        choice = found.choice
        path = choice_path(out, task=choice.task, backbone=choice.backbone, scale=choice.scale, method=choice.method)
        tuned.append((found, write_choice(out, choice) if process_index() == 0 else path))
    return tuned, failed


def _table(choice: Choice) -> RenderableType:
    """The original first, then every trial in the order of trying; ``◀`` marks the choice."""
    from genrec_unlearn_bench.tuning.rule import BEAM, is_feasible, worst_case

    def number(value: float | None) -> str:
        return "–" if value is None else f"{value:.4f}"

    before = choice.original
    varying = [name for name in choice.searched if len({repr(one.config[name]) for one in choice.trials}) > 1]
    first = ("original", *[""] * len(varying), number(worst_case(before)), number(before.retain_ndcg), "1.000")
    rows = [(*first, "", "", "")]
    for place, trial in enumerate(choice.trials):
        kept = trial.retain_ndcg
        share = "–" if kept is None or not before.retain_ndcg else f"{kept / before.retain_ndcg:.3f}"
        feasible = "diverged" if trial.diverged else "yes" if is_feasible(trial, before) else "no"
        mark = "" if place != choice.chosen else "◀" if choice.feasible else "◀ nearest"
        values = (text_of(trial.config.get(name)) for name in varying)
        numbers = (number(worst_case(trial)), number(kept), share, f"{trial.seconds:.1f}")
        rows.append((str(place + 1) if place else "default", *values, *numbers, feasible, mark))
    seeds = f"seed{'s' if len(choice.seeds) > 1 else ''} {', '.join(map(str, choice.seeds))}"
    heads = ("forget\nHR@10", "retain\nNDCG@10", "of the\noriginal", "seconds", "feasible")
    title = " · ".join((choice.method, choice.task, choice.backbone, choice.scale, seeds))
    table = sheet(rows, ["trial", *varying, *heads, ""], title=title, right=[*varying, *heads])
    table.rows[0].end_section = True
    table.rows[choice.chosen + 1].style = "bold"
    lines = [
        f"validation alone, beam {BEAM} · feasible: retain NDCG@10 at least {choice.floor} of the original's"
        + (f", near the concept {choice.near_floor}" if before.near_ndcg is not None else ""),
        "chosen: the best retain of the feasible whose forget HR@10 cannot be told apart from the lowest "
        f"(sign-flip over users, {choice.level:.0%})",
    ]
    lines.append(f"{len(choice.trials)} of the {choice.space} configurations that the method lists were tried")
    if not choice.feasible:
        lines.append("no trial was feasible: the nearest to it was taken, and is flagged in every result")
    return Group(table, Text("\n".join([*lines, f"all trials: {choice.seconds:.1f} s"]), style="dim"))
