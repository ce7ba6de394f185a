"""``bench submission reproduce``: repeat a run, or train a published reference, and compare number by number."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.command import Output, card
from genrec_unlearn_bench.config import overrides
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.progress_display import open_store, progressing
from genrec_unlearn_bench.registry import methods

if TYPE_CHECKING:
    from genrec_unlearn_bench.reproduce.repeat import Repetition
    from genrec_unlearn_bench.reproduce.reproduction import ReproductionRecord

SHOWN = ("hr@10", "ndcg@10", "concept-rate@10", "similarity.first")
"""Always shown; of the rest only what is not identical."""

MOST = 12
"""Rows of other numbers that are shown."""

Target = Annotated[
    str | None,
    Argument(
        help="A run (its folder or result.json), a published reference (default: list them) or your own YAML of one.",
        metavar="RUN|NAME|FILE",
    ),
]
RunEncoder = Annotated[str | None, Option(help="Of a run: where its text encoder lies, if the record cannot say.")]
Changes = Annotated[list[str] | None, Option("--set", help="Change a field: training.epochs=3 (not comparable then).")]
RunSids = Annotated[Path | None, Option(help="Of a run: the index file that its semantic IDs came from.")]
RunThreads = Annotated[int | None, Option(help="CPU threads (default: the run's, or the physical cores).", min=1)]


def reproduce(
    name: Target = None,
    method: Annotated[str | None, Option(help="Of a run: its method's file, if not installed.")] = None,
    encoder: RunEncoder = None,
    sids: RunSids = None,
    sandbox: options.Sandbox = True,
    minutes: Annotated[float | None, Option(help="Train for so long; the same call goes on.", min=0.0)] = None,
    set_: Changes = None,
    seed: Annotated[int, Option(help="Training seed.", min=0)] = 0,
    device: options.Device = "auto",
    threads: RunThreads = None,
    data_dir: options.DataDir = None,
    results_dir: options.ResultsDir = Path("results"),
    cache_dir: options.CacheDir = None,
) -> Output:
    """Run a record's cell again from its own settings, or train what a paper trained, and compare number by number.

    A run: its row is made and measured anew, everything below it may come from the cache. Exit code 1 where numbers
    differ by more than docs/submit.md allows.

    A published reference: the training's state is kept in the cache, so that after an interrupt, or with --minutes, the
    same command goes on. A record is written to the results folder after every call.
    """
    from genrec_unlearn_bench.reproduce import reproduction

    known = reproduction.published_references()
    if name is None:
        rows = [
            {"name": one.name, "what": one.title, "published": {part.metric: part.value for part in one.expected}}
            for one in known.values()
        ]
        content = [one.model_dump(mode="json") for one in known.values()]
        return card("Published references", content, view={"references": rows})
    shared: dict[str, Any] = {"data_dir": data_dir, "threads": threads}
    own = name.endswith((".yaml", ".yml"))
    if not own and name not in known and ("/" in name or Path(name).exists()):
        given = {"--minutes": minutes is not None, "--set": bool(set_), "--seed": seed != 0}
        if any(given.values()):
            raise UsageError(
                f"a run is repeated as it was, and {' and '.join(one for one in given if given[one])} would change it",
                hint="leave that out; another run is made with bench run",
            )
        shared["device"] = None if device == "auto" else device
        settings = {**shared, "method": method, "encoder": encoder, "sids": sids}
        return _repeat(Path(name), cache_dir, settings, sandbox=sandbox)
    reference = reproduction.find_reference(name)
    if minutes == 0:
        raise UsageError("--minutes 0 leaves no time for a single step", hint="give more, or leave it out")
    shared |= {"device": device, "results_dir": results_dir, "minutes": minutes, "seed": seed}
    request = reproduction.ReproductionRequest(reference=reference, changes=overrides(set_ or []), **shared)
    with open_store(cache_dir) as (store, progress):
        return _record_card(*reproduction.reproduce(request, store, progress))


def _record_card(record: ReproductionRecord, folder: Path) -> Output:
    reference = record.reference
    epochs = record.steps / record.steps_per_epoch
    verdict = "reproduced" if record.reproduced else "finished, and not all numbers are within the tolerance"
    if not record.finished:
        verdict = "not finished: the same command goes on from here"
    elif not record.comparable:
        verdict = "finished, with changed settings: not comparable with what was published"
    view = {
        "trained": f"{record.steps} of at most {record.total_steps} steps ({epochs:.1f} epochs)",
        "best validation NDCG@10": None if record.best_valid_ndcg < 0 else record.best_valid_ndcg,
        "measured": f"{record.test_rows} test rows, beam {reference.beam}",
        "time": f"{record.train_seconds / 60:.1f} min of training",
        "verdict": verdict,
        "record": str(folder),
        "comparisons": [
            {
                "metric": one.metric,
                "published": f"{one.published:.4f}",
                "ours": f"{one.measured:.4f}",
                "distance": f"{one.distance:+.1%}",
                f"within {reference.tolerance:.0%}": "yes" if one.within else "no",
            }
            for one in record.comparisons
        ],
    }
    content = {"folder": str(folder), "reproduced": record.reproduced, "record": record.model_dump(mode="json")}
    return card(reference.title, content, reference.source, view=view)


def _repeat(path: Path, cache_dir: Path | None, settings: dict[str, Any], *, sandbox: bool) -> Output:
    """Repeat a run and print the comparison; exit code 1 where it does not hold.

    A run that was submitted is repeated with the submission's own method file, in a sandbox, unless it is installed.
    """
    from genrec_unlearn_bench.pipeline.results import find_run, read_record
    from genrec_unlearn_bench.reproduce.repeat import repeat_record
    from genrec_unlearn_bench.submissions.spec import METHOD_FILE, SPEC

    folder = find_run(path)
    record = read_record(folder)
    submission = next((one for one in folder.resolve().parents if (one / SPEC).is_file()), None)
    if submission is not None and (submission / METHOD_FILE).is_file() and record.cell.method not in methods():
        settings = {"method": str(submission / METHOD_FILE), "sandboxed": sandbox} | {
            name: value for name, value in settings.items() if value is not None
        }
    with progressing() as progress:
        progress.info(f"{folder}: {record.command}")
        done = repeat_record(record, cache_dir=options.cache_root(cache_dir), progress=progress, **settings)
    return _repetition_card(done, folder)


def _repetition_card(done: Repetition, folder: Path) -> Output:
    cell = done.then.cell
    first = [row for row in done.rows if row.metric in SHOWN]
    others = [row for row in done.rows if row.metric not in SHOWN and row.verdict in ("differs", "within")]
    others.sort(key=lambda row: row.verdict != "differs")
    view = {
        "numbers": ", ".join(f"{count} {verdict}" for verdict, count in done.counts.items()),
        "asked for": "the same bits" if done.bitwise else "HR@10 and NDCG@10 within 2.8 standard errors over users",
        "surroundings": "\n".join(map(str, done.changes)) or "as they were",
        "from the cache": ", ".join(done.reused) or "nothing",
        "first difference": done.first_difference or "none: every stage came out the same",
        "time": done.time_fault,
        "verdict": "the record holds" if done.matches else "the record does not hold here",
        "not listed": f"{len(others) - MOST} more that are not identical (--json)" if len(others) > MOST else "",
        "rows": [
            row._asdict() | {"group": row.group.value, "allowed": "–" if row.allowed is None else f"±{row.allowed:.2g}"}
            for row in [*first, *others[:MOST]]
        ],
    }
    title = f"{cell.task} · {cell.backbone} · {cell.method} · {cell.scale} · seed {cell.seed}"
    plain = ("matches", "bitwise", "counts", "first_difference")
    content = {
        "folder": str(folder),
        "key": done.then.key,
        **{name: getattr(done, name) for name in plain},
        "reused": list(done.reused),
        "changes": [change._asdict() for change in done.changes],
        "rows": [{**row._asdict(), "group": row.group.value} for row in done.rows],
        "record": done.now.model_dump(mode="json"),
    }
    return Output(content, card(title, None, str(folder), view=view).parts, int(not done.matches))
