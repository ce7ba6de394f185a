"""Schedules: what is shared comes first and once, needs are kept whatever runs when, and tables fill early."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genrec_unlearn_bench.grid.expand import GridCell, cell_name
from genrec_unlearn_bench.grid.schedule import Job
from genrec_unlearn_bench.grid.job import Until
from genrec_unlearn_bench.grid.plan import Plan, PlannedCell, SharedStage, Standing
from genrec_unlearn_bench.grid.spec import Resources
from genrec_unlearn_bench.grid.schedule import schedule
from genrec_unlearn_bench.pipeline.request import RunRequest

METHODS = ("tracer", "original", "filter", "retrain", "popularity", "npo")
COSTS = {"tracer": 40.0, "filter": 1.0, "npo": None}
JOINT = "etegrec"


def request(task: str, backbone: str, method: str, seed: int) -> RunRequest:
    return RunRequest(task=task, backbone=backbone, method=method, seed=seed, scale="small", oracle_seeds=2)


def planned(asked: RunRequest, standing: Standing, resources: Resources | None = None) -> PlannedCell:
    axes = {"dataset": asked.task.partition("-")[0]}
    cell = GridCell(cell_name(asked), asked, resources or Resources(), axes)
    return PlannedCell(cell, standing, seconds=COSTS.get(asked.method))


def stages_of(asked: RunRequest) -> Iterable[tuple[str, Until, int, tuple[str, ...]]]:
    """Shared stages of a cell as a plan names them: of a task its ground and oracles, the others of a dataset."""
    dataset, where = asked.task.partition("-")[0], f"{asked.backbone}, seed {asked.seed}"
    ground, sids = f"ground: {asked.task}", f"semantic IDs: {dataset}, {where}"
    original = f"original: {dataset}, {where}"
    yield ground, "ground", 0, ()
    yield sids, "tokens", 0, (ground,)
    yield original, "original", 0, (ground, sids)
    for number in range(asked.oracle_seeds):
        above = (ground, sids, *((original,) if asked.backbone == JOINT else ()))
        yield f"retrain: {asked.task}, {where}, oracle {number}", "retrain", number, above


def plan_of(cells: Iterable[PlannedCell], made: Callable[[str], bool] = lambda name: False) -> Plan:
    """A plan as ``make_plan`` would give it, of stages that several waiting cells share and that are not made yet."""
    cells = list(cells)
    found: dict[str, tuple[Until, int, tuple[str, ...], list[PlannedCell]]] = {}
    for one in cells:
        if one.waits:
            for name, until, number, needs in stages_of(one.cell.request):
                if not made(name):
                    found.setdefault(name, (until, number, needs, []))[3].append(one)
    shared = {name: entry for name, entry in found.items() if len(entry[3]) > 1}
    return Plan(
        tuple(
            PlannedCell(
                one.cell,
                one.standing,
                seconds=one.seconds,
                needs=tuple(name for name, *_ in stages_of(one.cell.request) if name in shared) if one.waits else (),
            )
            for one in cells
        ),
        tuple(
            SharedStage(
                name,
                until,
                number,
                own[0].cell.request,
                tuple(one.cell.name for one in own),
                tuple(need for need in needs if need in shared),
                seconds=7.0,
            )
            for name, (until, number, needs, own) in shared.items()
        ),
    )


def grid(
    tasks: Iterable[str] = ("toys-brand", "toys-item"),
    backbones: Iterable[str] = ("tiger", JOINT),
    seeds: Iterable[int] = (0, 1),
    standing: Callable[[RunRequest], Standing] = lambda request: "missing",
) -> list[PlannedCell]:
    asked = [request(t, b, m, s) for t in tasks for b in backbones for s in seeds for m in METHODS]
    return [planned(each, standing(each)) for each in asked]


def place(jobs: Iterable[Job]) -> dict[str, int]:
    return {job.name: index for index, job in enumerate(jobs)}


def test_everything_stands_behind_what_it_needs_and_once() -> None:
    jobs = schedule(plan_of(grid()))
    where = place(jobs)
    assert len(where) == len(jobs)
    assert all(where[need] < where[job.name] for job in jobs for need in job.needs)
    assert {job.until for job in jobs} == {"ground", "tokens", "original", "retrain", "result"}
    shared = [
        (job.until, job.number, job.request.task.partition("-")[0], job.name) for job in jobs if job.until != "result"
    ]
    assert len(shared) == len(set(shared)) == 2 + 4 + 4 + 16


def test_only_waiting_cells_become_jobs() -> None:
    def standing(asked: RunRequest) -> Standing:
        return {"filter": "done", "npo": "impossible", "tracer": "stale"}.get(asked.method, "missing")  # type: ignore[return-value]

    jobs = schedule(plan_of(grid(standing=standing)))
    methods = {job.request.method for job in jobs if job.until == "result"}
    assert methods == set(METHODS) - {"filter", "npo"}
    assert schedule(Plan(())) == ()


def test_tables_come_early() -> None:
    jobs = schedule(plan_of(grid()))
    results = [job.request for job in jobs if job.until == "result"]
    tables = list(dict.fromkeys((each.seed, each.task, each.backbone) for each in results))
    expected = [(s, t, b) for s in (0, 1) for t in ("toys-brand", "toys-item") for b in ("tiger", JOINT)]
    assert tables == expected, "one table after the other, seed 0 of all before seed 1"
    blocks = [[each.method for each in results if (each.seed, each.task, each.backbone) == table] for table in tables]
    assert all(block == ["original", "retrain", "popularity", "filter", "tracer", "npo"] for block in blocks)
    before = jobs[: place(jobs)[cell_name(results[0])]]
    assert {job.until for job in before} == {"ground", "tokens", "original", "retrain"}
    assert all(job.request.seed == 0 and job.request.backbone == "tiger" for job in before)


def test_rows_wait_for_the_rows_that_measure_what_they_are_compared_with() -> None:
    jobs = {job.name: job for job in schedule(plan_of(grid(tasks=["toys-brand"], backbones=["tiger"], seeds=[0])))}
    row = {method: cell_name(request("toys-brand", "tiger", method, 0)) for method in METHODS}
    assert jobs[row["retrain"]].needs == (row["original"],), "which needs the shared stages itself"
    for method in ("tracer", "filter", "popularity"):
        assert jobs[row[method]].needs == (row["retrain"],)
    alone = grid(tasks=["toys-brand"], backbones=["tiger"], seeds=[0])
    alone = [each for each in alone if each.cell.request.method != "retrain"]
    jobs = {job.name: job for job in schedule(plan_of(alone))}
    assert row["original"] in jobs[row["tracer"]].needs


def test_without_oracles_nobody_waits_for_the_row_retrain() -> None:
    cells = [
        planned(request("toys-brand", "tiger", method, 0).model_copy(update={"oracle_seeds": 0}), "missing")
        for method in ("original", "retrain", "tracer")
    ]
    jobs = {job.request.method: job for job in schedule(Plan(tuple(cells)))}
    assert jobs["tracer"].needs == jobs["retrain"].needs == (jobs["original"].name,)


def test_a_joint_tokenizer_is_trained_before_its_oracles() -> None:
    jobs = {job.name: job for job in schedule(plan_of(grid(seeds=[0])))}
    joint = jobs[f"retrain: toys-brand, {JOINT}, seed 0, oracle 1"]
    frozen = jobs["retrain: toys-brand, tiger, seed 0, oracle 1"]
    assert joint.needs == (f"original: toys, {JOINT}, seed 0",), "which needs all the rest itself"
    assert frozen.needs == ("semantic IDs: toys, tiger, seed 0",)
    assert (joint.until, joint.number) == ("retrain", 1)


def test_a_dataset_is_prepared_for_one_task_and_then_for_the_others() -> None:
    jobs = {job.name: job for job in schedule(plan_of(grid(tasks=["toys-brand", "toys-item", "sports-brand"])))}
    assert jobs["ground: toys-item"].needs == ("ground: toys-brand",)
    assert jobs["ground: sports-brand"].needs == ()


def test_what_is_made_already_is_not_waited_for() -> None:
    jobs = schedule(plan_of(grid(seeds=[0]), made=lambda name: not name.startswith("retrain")))
    assert {job.until for job in jobs} == {"retrain", "result"}


def test_shared_stages_are_asked_for_without_what_is_one_methods_own() -> None:
    cells = [
        planned(
            request("toys-brand", "tiger", "tracer", 0).model_copy(
                update={"method_set": {"lr": number}, "suite": "full", "measure": ("probing",), "shadows": 8}
            ),
            "missing",
            Resources(memory_mib=memory, gpus=number),
        )
        for number, memory in enumerate([100, 900])
    ]
    cells = [
        PlannedCell(GridCell(f"cell {n}", c.cell.request, c.cell.resources), "missing") for n, c in enumerate(cells)
    ]
    for job in schedule(plan_of(cells)):
        if job.until != "result":
            assert job.request.method == "original"
            assert job.request.method_set == {}
            assert (job.request.measure, job.request.shadows) == ((), 0)
            assert job.request.suite == "full", "a holdout is part of what is trained"
            assert job.resources == Resources(memory_mib=900, gpus=1), "any of the cells may be the one it is like"


def test_a_shared_stage_gets_what_its_own_row_gets() -> None:
    cells = [
        planned(request("toys-brand", "tiger", method, 0), "missing", Resources(memory_mib=memory))
        for method, memory in (("original", 100), ("retrain", 200), ("tracer", 900))
    ]
    jobs = {job.until: job.resources.memory_mib for job in schedule(plan_of(cells))}
    assert jobs["original"] == jobs["tokens"] == 100
    assert jobs["retrain"] == 200


def test_it_is_the_same_each_time_and_keeps_what_it_was_told() -> None:
    assert schedule(plan_of(grid())) == schedule(plan_of(grid()))
    jobs = schedule(plan_of(grid()))
    assert {job.seconds for job in jobs if job.until != "result"} == {7.0}
    assert {job.cells for job in jobs if job.until == "result"} == {
        (job.name,) for job in jobs if job.until == "result"
    }


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    workers=st.integers(1, 6),
    tasks=st.lists(st.sampled_from(["toys-brand", "toys-item", "sports-brand"]), min_size=1, unique=True),
    backbones=st.lists(st.sampled_from(["tiger", "mor", JOINT]), min_size=1, unique=True),
)
def test_no_job_starts_before_its_needs_are_done(
    seed: int, workers: int, tasks: list[str], backbones: list[str]
) -> None:
    """A pool that prefers the order and takes random time over each job; some cells are done, some stages made."""
    draw = random.Random(seed)
    standings: tuple[Standing, ...] = ("missing", "missing", "stale", "done", "impossible")
    cells = grid(tasks, backbones, (0, 1), lambda _: draw.choice(standings))
    jobs = schedule(plan_of(cells, made=lambda name: hash((name, seed)) % 4 == 0))
    waiting, running, done = list(jobs), dict[str, float](), set[str]()
    computed: dict[str, int] = defaultdict(int)
    clock = 0.0
    while waiting or running:
        for job in [each for each in waiting if set(each.needs) <= done][: workers - len(running)]:
            waiting.remove(job)
            running[job.name] = clock + draw.expovariate(1.0)
            computed[job.name] += 1
        assert running, "nothing runs and something waits: needs go in a circle"
        first = min(running, key=lambda name: running[name])
        clock = running.pop(first)
        done.add(first)
    assert set(computed.values()) <= {1}
    assert {each.cell.name for each in cells if each.waits} <= done


@pytest.mark.slow
def test_twenty_thousand_cells_take_seconds() -> None:
    cells = grid([f"set{n}-brand" for n in range(17)], [f"backbone{n}" for n in range(40)], range(5))
    assert len(cells) > 20_000
    plan = plan_of(cells)
    started = time.process_time()
    jobs = schedule(plan)
    assert len(jobs) > 20_000
    assert time.process_time() - started < 10, "about two on a free core"


def test_results_stay_where_the_cells_say(tmp_path: Path) -> None:
    asked = request("toys-brand", "tiger", "tracer", 0).model_copy(update={"results_dir": tmp_path})
    (job,) = schedule(Plan((planned(asked, "missing"),)))
    assert job.request == asked
