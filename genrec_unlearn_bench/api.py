"""The Python API: what ``bench`` does, from a notebook or a script; results are pandas data frames.

``import genrec_unlearn_bench as bench`` gives these names, and imports what they need when they are first used. The
command line calls the same functions of the engine. Errors are ``errors.BenchError``, as on the command line.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import pandas as pd

from genrec_unlearn_bench.config import one_of, parse, several
from genrec_unlearn_bench.errors import UsageError, names_arguments
from genrec_unlearn_bench.listing import KINDS, kind_named, rows_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from genrec_unlearn_bench.data.frames import Task
    from genrec_unlearn_bench.data.tasks import TaskSpec
    from genrec_unlearn_bench.pipeline.record import Cell
    from genrec_unlearn_bench.pipeline.request import RunRequest
    from genrec_unlearn_bench.reporting.frame import Filters
    from genrec_unlearn_bench.submissions.result_set import ResultSet
    from genrec_unlearn_bench.unlearning.method import UnlearningMethod

    Method = str | Path | type[UnlearningMethod[Any]]
    Results = pd.DataFrame | str | Path | Sequence[str | Path] | None

M = TypeVar("M", bound="type[UnlearningMethod[Any]]")


@names_arguments
def run(
    task: str | Path | TaskSpec,
    method: Method | Sequence[Method],
    *,
    backbone: str | Sequence[str] = "tiger",
    seed: int | Iterable[int] = 0,
    scale: str | None = None,
    suite: str = "core",
    data_dir: str | Path | None = None,
    device: str = "auto",
    method_set: dict[str, Any] | None = None,
    results_dir: str | Path = "results",
    cache_dir: str | Path | None = None,
    on_error: str = "raise",
    **request: Any,
) -> pd.DataFrame:
    """Run methods on a task, as ``bench run`` does, and return their results; original and retrain come along.

    Args:
        task: Name (``available("tasks")``), path of a task's YAML file, or ``TaskSpec``.
        method: One or several: names (``available("methods")``), ``path/to/file.py:Class``, or classes.
        backbone, seed: One or several; the backbone "all" stands for every one.
        scale, suite: smoke, small, paper or official (None: smoke on the demo, small elsewhere); core or full.
        data_dir, cache_dir: Folder of the dataset's files, and of computed stages; None: the usual ones.
        method_set: Fields of the method's configuration that differ from its defaults.
        on_error: "raise" or "warn" where a cell fails while others finish.
        **request: Further fields of ``RunRequest``: ``oracle_seeds``, ``ruleset``, ``threads``, ``backbone_set`` …

    Returns:
        The results of these cells, as ``load_results`` gives them.

    Raises:
        BenchError: A name or an option is wrong (UsageError), or a cell failed; what is finished is kept.

    Example:
        >>> sorted(bench.run("demo-brand", "filter", backbone_set={"training.epochs": 1})["method"].unique())
        ['filter', 'original', 'retrain']
    """
    from genrec_unlearn_bench.data.tasks import TaskSpec, task_file
    from genrec_unlearn_bench.notebook import method_name
    from genrec_unlearn_bench.pipeline.cells import cells_of, run_cells
    from genrec_unlearn_bench.progress_display import open_store
    from genrec_unlearn_bench.reporting.frame import results_frame
    from genrec_unlearn_bench.reporting.results import result_of

    one_of("value of on_error", on_error, ("raise", "warn"))
    folder = Path(results_dir)
    request["task"] = task_file(task, folder) if isinstance(task, TaskSpec) else str(task)
    request |= {"method": "original", "scale": scale, "suite": suite, "data_dir": data_dir}
    names = [method_name(one, folder) for one in several(method)]
    shared = _requests(seed, request | {"device": device, "method_set": method_set or {}, "results_dir": folder})
    cells = cells_of(shared[0], several(backbone), names, [one.seed for one in shared])
    with open_store(None if cache_dir is None else Path(cache_dir)) as (store, progress):
        finished, failed = run_cells(cells, store, progress)
    if failed and on_error == "raise":
        raise failed[0][1]
    warned: list[tuple[Cell | RunRequest, str]] = [(cell, fault.render()) for cell, fault in failed]
    warned += [(done.record.cell, "diverged: not finite") for done in finished if done.record.diverged]
    _warn(warned)
    return results_frame(result_of(done.record, folder=done.folder, root=folder) for done in finished)


@names_arguments
def load_results(
    results_dir: str | Path | Sequence[str | Path] = "results",
    *,
    published: bool = False,
    wide: bool = False,
    skip_broken: bool = False,
    protocol: int | None = None,
    **filters: Unpack[Filters],
) -> pd.DataFrame:
    """Results below some folders as a tidy data frame: one row for each measured value.

    Args:
        results_dir: One or several folders; with ``published``, ``results`` need not be there.
        published: Whether to add the results that ship with the suite, and the submissions.
        wide: One row for each run instead, with a column for each measure: ``forget:hr@10/10`` (group:metric/beam).
        skip_broken: Whether to go on without records that cannot be read.
        protocol: Results of this version of the protocol; None: the newest that the filters leave.
        **filters: task, backbone, method, seed, scale, suite, ruleset, requests: values to keep, globs for names.

    Returns:
        The columns task, backbone, method, seed, scale, suite, ruleset, requests; metric, group, beam, value (NaN: not
        measured), n (examples), better (higher, lower, oracle, none); diverged, submission, badge, key, created,
        suite_version, protocol_version, folder. Key, metric, group and beam are unique.

    Raises:
        DataMissing: There is no result. UnknownName: No result fits a filter. CorruptArtefact: Records are broken.

    Example:
        >>> df = bench.load_results(published=True, method=["retrain", "tracer"])
        >>> hr = df.query("metric == 'hr@10' and group == 'forget' and beam == 10")
        >>> hr.groupby("method")["value"].mean().index.tolist()
        ['retrain', 'tracer']
    """
    from genrec_unlearn_bench.reporting.frame import results_frame
    from genrec_unlearn_bench.submissions.result_set import load_result_set

    folders = [one for one in _folders(results_dir) if not published or one != Path("results") or one.is_dir()]
    options: dict[str, Any] = {"published": published, "skip_broken": skip_broken, "protocol": protocol}
    return results_frame(load_result_set(folders, **options, filters=filters).results, wide=wide)


@names_arguments
def leaderboard(
    results: Results = None, *, layout: str = "main", baseline: str | None = None, beam: int = 10
) -> pd.DataFrame:
    """The table of ``bench leaderboard``: means over seeds, their intervals, and what the tests say.

    Args:
        results: A frame of ``run`` or ``load_results``, or folders; None: ``results``, or the suite's own where there
            is no such folder. The runs in a frame's column ``folder`` are read again: filters count, edits do not.
        layout: main, full, item, efficiency, ablation, attack or streams.
        baseline: Row that all others are tested against; None: the original; in ``efficiency`` ``retrain``.
        beam: Beam width of list metrics, 10 or 50.

    Returns:
        Rows by task, backbone, scale, ruleset, setup and method; columns by measure (``forget:hr@10/10``), below each
        mean, low and high (t interval) and verdict against the baseline, corrected for all tests of the table.

    Raises:
        DataMissing: No result fits the layout. UnknownName: There is no such layout or row.

    Example:
        >>> table = bench.leaderboard(bench.load_results(published=True, task="demo-brand"))
        >>> list(table["retain:hr@10/10"].columns)
        ['mean', 'low', 'high', 'verdict']
    """
    from genrec_unlearn_bench.reporting.formats.csv_tables import LONG_COLUMNS, long_rows

    report = _result_set(results).report({}, layout, beam=beam, baseline=baseline)
    long = pd.DataFrame(long_rows(report.tables), columns=list(LONG_COLUMNS))
    long = long.drop(columns="method").rename(columns={"row": "method"})
    long = long.astype(dict.fromkeys(("mean", "low", "high"), float))
    rows = long.set_index(["task", "backbone", "scale", "ruleset", "setup", "method"])
    values = {
        measure: part[["mean", "low", "high", "verdict"]] for measure, part in rows.groupby("measure", sort=False)
    }
    return pd.concat(values, axis=1)


@names_arguments
def compare(
    first: str, second: str, results: Results = None, *, metric: str | Sequence[str] | None = None
) -> pd.DataFrame:
    """Compare two methods: paired over training seeds, corrected over the measures, block by block.

    Args:
        first, second: Methods, or labels of rows as tables show them.
        results: As of ``leaderboard``.
        metric: Measures (``forget:hr@10``, ``retain:ndcg@10/50``); None: the protocol's primary ones.

    Returns:
        A row for each block and measure: block, measure, estimate (first minus second), low, high, n (seeds), p,
        p_holm, p_sign_flip, effect (Hedges' g), verdict (of the first), detectable (least difference that so many seeds
        would show), sentence.

    Raises:
        UnknownName: No result is of that method. UsageError: No task and backbone has both.

    Example:
        >>> found = bench.compare("tracer", "filter", bench.load_results(published=True, task="demo-brand"))
        >>> found[["block", "measure", "verdict"]].shape[1]
        3
    """
    pairs = _result_set(results).compare(first, second, {}, several(metric) if metric else ())
    numbers = ("estimate", "low", "high", "n", "p", "p_holm", "p_sign_flip", "effect")
    rows = [
        {
            "block": pair.block.key.title,
            "measure": one.measure.text,
            **{name: getattr(one.difference, name) for name in numbers},
            "verdict": one.difference.verdict.value,
            "detectable": one.detectable,
            "sentence": one.sentence,
        }
        for pair in pairs
        for one in pair.measures
    ]
    floats = dict.fromkeys({*numbers, "detectable"} - {"n"}, float)
    return pd.DataFrame(rows).astype(floats)


@names_arguments
def plot(
    kind: str,
    results: Results = None,
    *,
    metric: str | Sequence[str] | None = None,
    width: str = "page",
    **filters: Unpack[Filters],
) -> Figure:
    """Draw one figure of results, as ``bench results figures`` does; a notebook shows it.

    Args:
        kind: pareto, overlap, probing, relearning …
        results: As of ``leaderboard``.
        metric: Measures of Pareto figures.
        width: column (3.33 inches) or page (7 inches).
        **filters: As of ``load_results``. Methods that are not named are hidden; tests stay among all.

    Returns:
        A matplotlib figure; ``savefig`` writes it in the suite's style.

    Raises:
        NotDrawn: The results lack what the kind shows. UsageError: It would be several figures, or no such kind.

    Example:
        >>> figure = bench.plot("pareto", bench.load_results(published=True, task="demo-brand"))
        >>> len(figure.axes) > 0
        True
    """
    from genrec_unlearn_bench.reporting.figures.catalogue import draw_all
    from genrec_unlearn_bench.reporting.figures.drawing import draw, styled
    from genrec_unlearn_bench.reporting.figures.model import WIDTHS, FigureRequest

    found, methods = _result_set(results), tuple(map(str, several(filters.get("method", ()))))
    request = FigureRequest(found.protocol, methods, tuple(several(metric or ())))
    figures, _ = draw_all(found.board(filters), [kind], request)
    if len(figures) > 1:
        names = "; ".join(dict.fromkeys(figure.block.title for figure in figures))
        hint = "name one task, backbone, scale, suite and ruleset, or fewer methods"
        raise UsageError(f"these are {len(figures)} figures of the kind {kind!r}", where=names, hint=hint)
    with styled():
        return draw(figures[0], one_of("width", width, WIDTHS))


@names_arguments
def load_task(name: str | Path | TaskSpec, *, data_dir: str | Path | None = None) -> Task:
    """A task: what is to be forgotten of its dataset, which is prepared if it is not in the cache.

    Args:
        name: As of ``run``.
        data_dir: Folder of the dataset's files, or of folders of datasets.

    Returns:
        ``.items`` (data frame: id, title, brand, categories, price …, ``concept``), ``.interactions`` (user, item,
        part, ``forget``), ``.to_datasets()`` (a ``datasets.DatasetDict``), ``.spec``, ``.dataset`` and ``.split``.

    Raises:
        UnknownName: There is no such task. DataMissing: The dataset's files are not there.

    Example:
        >>> task = bench.load_task("demo-brand")
        >>> task.items.query("concept")["brand"].nunique() == len(task.split.manifest.concepts)
        True
    """
    from genrec_unlearn_bench.data.catalogue import find_dataset
    from genrec_unlearn_bench.data.concepts import resolve
    from genrec_unlearn_bench.data.frames import Task
    from genrec_unlearn_bench.data.tasks import TaskSpec, find_task
    from genrec_unlearn_bench.pipeline.stages.data import load_prepared
    from genrec_unlearn_bench.progress_display import open_store

    place = None if data_dir is None else Path(data_dir)
    spec = name if isinstance(name, TaskSpec) else find_task(str(name), place)
    with open_store(None) as (store, progress):
        dataset = load_prepared(find_dataset(spec.dataset, place), place, store, progress)
    return Task(spec, dataset, resolve(spec, dataset))


@names_arguments
def available(kind: str = "tasks", *, data_dir: str | Path | None = None) -> pd.DataFrame:
    """What there is of a kind, as ``bench ls`` lists it.

    Args:
        kind: tasks, methods, backbones, datasets, measurements, metrics or grids.
        data_dir: Folder with imported datasets.

    Returns:
        A row for each, with its name in the first column (task, method …).

    Raises:
        UnknownName: There is no such kind.

    Example:
        >>> "tiger" in bench.available("backbones")["backbone"].tolist()
        True
    """
    from genrec_unlearn_bench.notebook import REGISTERED

    name = kind_named(kind)
    rows = rows_of(name, None if data_dir is None else Path(data_dir))
    if name == "methods":
        rows += [{"method": own, "kind": "session", "summary": inspect.getdoc(cls)} for own, cls in REGISTERED.items()]
    return pd.DataFrame(rows, columns=list(KINDS[name]))


def register_method(cls: M) -> M:
    """Make a method of a notebook or a script known by its name; works as a decorator.

    ``run`` writes the class, with what it uses of its cell, to ``results/.methods/<digest>/<class>.py``, and runs that
    file: results are keyed by its content, and ``bench submission new --method`` takes it. Imports that the class
    needs stand in its cell.

    Returns:
        The class.

    Raises:
        UsageError: It is no method, its name is taken, or its source is not known or uses names of other cells.

    Example:
        >>> from genrec_unlearn_bench.methods.npo import NPO
        >>> bench.register_method(NPO)
        Traceback (most recent call last):
        ...
        genrec_unlearn_bench.errors.UsageError: the name 'npo' belongs to a method of the suite
          hint:  choose another name
    """
    from genrec_unlearn_bench.notebook import register

    return register(cls)


def _requests(seeds: int | Iterable[int], fields: dict[str, Any]) -> list[RunRequest]:
    """One request for each seed. Raises UsageError for a wrong field, and where no seed is named."""
    from genrec_unlearn_bench.pipeline.request import RunRequest

    if not (named := several(seeds)):
        raise UsageError("no seed was named", hint="seed=0, or several: seed=range(5)")
    return [parse(RunRequest, {**fields, "seed": seed}, where="run()") for seed in named]


def _warn(warned: Iterable[tuple[Cell | RunRequest, str]]) -> None:
    for cell, text in warned:
        warnings.warn(f"{cell.backbone}, {cell.method}, seed {cell.seed}: {text}", stacklevel=4)


def _folders(named: str | Path | Sequence[str | Path]) -> list[Path]:
    folders = list(dict.fromkeys(several(named)))
    if not folders or not all(isinstance(one, str | Path) for one in folders):
        raise UsageError(f"no folder was named, but {named!r:.60}", hint="a folder with results, or a list of them")
    return [Path(one) for one in folders]


def _result_set(results: Results) -> ResultSet:
    """The results that a call means. Raises UsageError for a frame without the column ``folder``."""
    from genrec_unlearn_bench.submissions.result_set import load_result_set, results_at

    if not isinstance(results, pd.DataFrame):
        folders = [] if results is None else _folders(results)
        return load_result_set(folders, published=False, skip_broken=False)
    if "folder" not in results:
        raise UsageError("the data frame has no column 'folder'", hint="filter the rows of load_results or run")
    return results_at([Path(folder) for folder in results["folder"].unique()])
