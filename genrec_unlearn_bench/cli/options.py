"""Options that several verbs share, and how those of verbs that read results are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from genrec_unlearn_bench.cli.command import first_lines
from genrec_unlearn_bench.config import named, one_of
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.listing import names_of
from genrec_unlearn_bench.progress_display import print_line

if TYPE_CHECKING:
    from genrec_unlearn_bench.submissions.result_set import ResultSet


def _completes(kind: str) -> Callable[[str], list[str]]:
    """Completion of names of a kind in a shell, several with commas."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in names_of(kind) if name.startswith(last)]

    return complete


_TASKS, _METHODS, _BACKBONES = map(_completes, ("tasks", "methods", "backbones"))

DataDir = Annotated[
    Path | None, Option(help="Folder of the dataset's files, or of folders of datasets.", metavar="DIR")
]
CacheDir = Annotated[
    Path | None, Option(help="Where computed stages are kept (default: $GENREC_UNLEARN_BENCH_CACHE).", metavar="DIR")
]
Sandbox = Annotated[
    bool,
    Option(
        "--sandbox/--no-sandbox",
        help="Run a submitted method inside bubblewrap; without it only code you trust, and the badge says so.",
    ),
]

# What a run is made of.

Task = Annotated[str, Option(help="Task, or the path of a task's YAML (bench ls tasks).", autocompletion=_TASKS)]
Method = Annotated[
    list[str], Option(help="Methods or reference rows; path/to/file.py:Class works.", autocompletion=_METHODS)
]
Backbone = Annotated[str, Option(help="Backbone (bench ls backbones).", autocompletion=_BACKBONES)]
Backbones = Annotated[
    list[str], Option("--backbone", help="Backbones, or all (bench ls backbones).", autocompletion=_BACKBONES)
]
Seed = Annotated[list[int] | None, Option(help="Training seeds (default: 0).", min=0)]
Scale = Annotated[str | None, Option(help="smoke, small, paper or official (default: smoke on demo, small elsewhere).")]
Suite = Annotated[str, Option(help="Which measurements are taken: core or full (bench ls metrics).")]
Measure = Annotated[list[str] | None, Option(help="Of the suite full, only this measurement; several.", metavar="NAME")]
SetMeasure = Annotated[list[str] | None, Option(help="Change a measurement's field: relearning.lr=1e-5.")]
Sids = Annotated[Path | None, Option(help="Semantic IDs from LETTER's or MiniOneRec's index.json.", metavar="FILE")]
Encoder = Annotated[str | None, Option(help="tfidf, minilm, a sentence-transformers folder or hub id.")]
Device = Annotated[str, Option(help="auto, cpu, cuda or cuda:N.")]
Threads = Annotated[int | None, Option(help="CPU threads (default: one at smoke scale, else all cores).", min=1)]
Set = Annotated[list[str] | None, Option("--set", help="Change a field of the method's configuration: key=value.")]
SetBackbone = Annotated[list[str] | None, Option(help="Change a field of the backbone's: training.epochs=20.")]
MaxHours = Annotated[float | None, Option(help="End a model's training after so many hours; results say so.", min=0.0)]
SetSid = Annotated[list[str] | None, Option(help="Change a field of the tokenizer's: codes=128.")]
Ruleset = Annotated[str, Option(help="Method configurations: default, fixed (one for all tasks) or tuned.")]
TunedDir = Annotated[Path, Option(help="Where the choices of bench tune lie.", metavar="DIR")]
Sasrec = Annotated[
    bool | None, Option("--sasrec/--no-sasrec", help="Hold the original against SASRec (default: not at smoke scale).")
]
OracleSeeds = Annotated[int, Option(help="Retrained models for the gap; 0 trains none.", min=0, max=20)]
Requests = Annotated[int, Option(help="So many requests, one after the other, instead of one.", min=1)]
Shadows = Annotated[int, Option(help="With --suite full: shadow models for U-LiRA, an even number.", min=0, max=64)]
TensorBoard = Annotated[Path | None, Option("--tensorboard", help="Write losses for TensorBoard.", metavar="DIR")]
ResultsDir = Annotated[Path, Option(help="Where results are written.", metavar="DIR")]

# Of grids.

Grid = Annotated[str, Argument(help="A grid's file, or the name of one that ships (bench ls grids).", metavar="GRID")]
GridDevice = Annotated[
    str | None, Option("--device", help="auto, cpu, cuda or cuda:N (default: as the grid says).", show_default=False)
]

# Of results.

ResultsDirs = Annotated[
    list[Path] | None,
    Option("--results-dir", help="Folders of results (default: results, else the suite's own).", metavar="DIR"),
]
Published = Annotated[bool, Option("--published", help="Add the suite's own results and the submissions.")]
SkipBroken = Annotated[bool, Option("--skip-broken", help="Go on without records that cannot be read, and count them.")]
Protocol = Annotated[
    int | None, Option("--protocol", help="Results of this version of the protocol (default: the newest there is).")
]
TaskNames = Annotated[
    list[str] | None, Option("--task", help="Tasks to show; several, globs work: sports-*.", autocompletion=_TASKS)
]
BackboneNames = Annotated[
    list[str] | None, Option("--backbone", help="Backbones to show; several, globs work.", autocompletion=_BACKBONES)
]
MethodNames = Annotated[
    list[str] | None, Option("--method", help="Methods to show; several, globs work.", autocompletion=_METHODS)
]
RulesetNames = Annotated[list[str] | None, Option("--ruleset", help="default, fixed or tuned; several.")]
ScaleNames = Annotated[list[str] | None, Option("--scale", help="smoke, small, paper or official; several.")]
SuiteNames = Annotated[list[str] | None, Option("--suite", help="core or full, which train on different data.")]
Metrics = Annotated[
    list[str] | None, Option("--metric", help="Measures: forget:hr@10, retain:ndcg@10/50 (bench ls metrics).")
]
Beam = Annotated[
    int | None, Option("--beam", help="Beam width of list metrics: 10 (the paper's) or 50.", show_default="10")
]
Layout = Annotated[str, Option(help="main, full, item, efficiency, ablation, attack or streams.")]
TableFormat = Annotated[
    str | None, Option("--format", help="md, csv, json, latex, html, terminal; several.", show_default="terminal")
]
Baseline = Annotated[
    str | None, Option(help="Row that all others are tested against.", show_default="the layout's: original or retrain")
]
Standalone = Annotated[bool, Option("--standalone", help="LaTeX as a whole document that compiles by itself.")]


def cache_root(cache_dir: Path | None) -> Path:
    """The cache that a call names, or the user's own."""
    from genrec_unlearn_bench.store.store import default_cache

    return cache_dir or default_cache()


def read_results(
    folders: Sequence[Path] | None, *, published: bool = False, skip_broken: bool, protocol: int | None = None
) -> ResultSet:
    """The results of a call, all of one protocol; records that cannot be read are named on stderr."""
    from genrec_unlearn_bench.submissions.result_set import load_result_set

    found = load_result_set(folders or (), published=published, skip_broken=skip_broken, protocol=protocol)
    print_faults(found.faults)
    return found


def print_faults(faults: Iterable[str]) -> None:
    """Name records that cannot be read on stderr."""
    for line in first_lines([f"left out: {fault}" for fault in faults]):
        print_line(line, stderr=True)


def filters(**options: Sequence[Any] | None) -> dict[str, tuple[str, ...]]:
    """The names, globs or numbers of each option that was given."""
    return {column: names for column, values in options.items() if (names := named([*map(str, values or ())]))}


def chosen_formats(text: str | None, out: Path | None, known: Sequence[str]) -> list[str]:
    """The formats asked for; of a file's name where none are. ``known``: the terminal, then what can be a file.

    Raises UsageError.
    """
    from genrec_unlearn_bench.reporting.outputs import SUFFIXES

    of_file = SUFFIXES.get(out.suffix.lower()) if out is not None and not out.is_dir() else None
    usual = known[0] if out is None else of_file or known[1]
    formats = list(dict.fromkeys(one_of("format", name.lower(), known) for name in named([text or usual])))
    fits = len(formats) == 1 if out is None else known[0] not in formats and of_file in (None, *formats[:1])
    if not fits or (of_file is not None and len(formats) > 1):
        what = f"{' and '.join(formats)} cannot be written to {'stdout' if out is None else out}"
        raise UsageError(what, hint="name a folder for several formats (--out DIR), or one file by its format's ending")
    return formats
