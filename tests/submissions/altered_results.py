"""Ways to alter the results of a submission, each with the check that sees it and words of its message."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from genrec_unlearn_bench.data.forget import TaskManifest, manifest_digest
from tests.submissions import forging
from tests.submissions.forging import (
    Alteration,
    demo,
    edited_text,
    fields,
    first,
    metric,
    on_record,
    places,
    raw_table,
    record,
    renewed,
    table,
    words,
)


def on_demo_record(**changes: Any) -> Alteration:
    return lambda folder: record(demo(folder), fields(**changes))


def on_metric(name: str, **changes: Any) -> Alteration:
    return lambda folder: record(first(folder), metric(name, lambda value: value.update(changes)))


def on_table(change: Callable[[pd.DataFrame], pd.DataFrame], *, rescore: bool = True) -> Alteration:
    return lambda folder: table(first(folder), change, rescore=rescore)


def reordered(frame: pd.DataFrame) -> pd.DataFrame:
    order = np.arange(len(frame))
    order[[3, 9]] = order[[9, 3]]
    out = frame.iloc[order].reset_index(drop=True)
    out["user"] = frame["user"]
    return out


def better_ranks(frame: pd.DataFrame) -> pd.DataFrame:
    """Move every retain target that was found to the first place."""
    found = (frame["group"] == "retain") & (frame["rank"] > 0)
    return frame.assign(rank=np.where(found, 1, frame["rank"]))


def hidden_hits(frame: pd.DataFrame) -> pd.DataFrame:
    """Say of retain targets that they are found in lists that hold concept items alone."""
    retain = frame["group"] == "retain"
    rank, chance = np.where(retain, 1, frame["rank"]), np.where(retain, -0.5, frame["log_prob"])
    return frame.assign(rank=rank, log_prob=chance, concept_in_list=np.where(retain, 10, frame["concept_in_list"]))


def swapped_tables(folder: Path) -> None:
    one, other = (place / "per_user.parquet" for place in places(folder))
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)
    for place in places(folder):
        forging.sealed(place, None)


def asked_in_four(folder: Path) -> None:
    told = json.loads((first(folder) / "result.json").read_text())["command"]
    record(first(folder), fields(command=f"{told} --requests 4"))


def relabelled_seeds(folder: Path) -> None:
    """Seed 0 is called 1 and the other way round, in the records and in the folders' names."""
    one, other = places(folder)
    for place, seed in ((one, 1), (other, 0)):
        record(place, fields(cell__seed=seed))
    one.rename(one.with_name(one.name.replace("seed0", "seedx")))
    other.rename(other.with_name(other.name.replace("seed1", "seed0")))
    moved = one.with_name(one.name.replace("seed0", "seedx"))
    moved.rename(moved.with_name(moved.name.replace("seedx", "seed1")))
    renewed(folder)


def copied_seed(folder: Path) -> None:
    """Seed 1 is seed 0 once more."""
    one, other = places(folder)
    told = json.loads((one / "result.json").read_text())
    told["cell"]["seed"] = 1
    told["key"] = json.loads((other / "result.json").read_text())["key"]
    told["command"] = told["command"].replace("--seed 0", "--seed 1")
    told["stages"] = json.loads((other / "result.json").read_text())["stages"]
    (other / "result.json").write_text(json.dumps(told))
    shutil.copyfile(one / "per_user.parquet", other / "per_user.parquet")
    renewed(folder)


def twice(folder: Path) -> None:
    """The same cell under another key."""
    source = first(folder)
    copy = source.with_name(f"{source.name[:-10]}{'a' * 10}")
    shutil.copytree(source, copy)
    record(copy, fields(key="a" * 64))


def one_seed_less(folder: Path) -> None:
    shutil.rmtree(places(folder)[1])
    renewed(folder)


def picked_seeds(folder: Path) -> None:
    words(folder, lambda content: content.update(seeds=[1]))
    for task in ("demo-brand", "industrial-brand"):
        shutil.rmtree(places(folder, task)[0])
    renewed(folder)


def tuning_seed(folder: Path) -> None:
    place = first(folder)
    record(place, lambda content: content.update(command=content["command"].replace("--seed 0", "--seed 9000")))
    record(place, fields(cell__seed=9000))
    place.rename(place.with_name(place.name.replace("seed0", "seed9000")))
    renewed(folder)


def without_demo(folder: Path) -> None:
    shutil.rmtree(folder / "results" / "demo-brand")
    (folder / "manifests" / "demo-brand.json").unlink()
    words(folder, lambda content: content.update(rulesets=["tuned"]))
    renewed(folder)


def other_manifest(task: str, **changes: Any) -> Alteration:
    """A changed manifest with its digest made anew, and the records following it."""

    def alter(folder: Path) -> None:
        path = folder / "manifests" / f"{task}.json"
        manifest = TaskManifest.model_validate_json(path.read_bytes()).model_copy(update=changes)
        manifest = manifest.model_copy(update={"digest": manifest_digest(manifest)})
        path.write_text(manifest.model_dump_json(), encoding="utf-8")
        for place in places(folder, task):
            record(place, fields(task_digest=manifest.digest, dataset_digest=manifest.dataset_digest))

    return alter


def swapped_manifest(folder: Path) -> None:
    path = folder / "manifests" / "industrial-brand.json"
    shutil.copyfile(folder / "manifests" / "demo-brand.json", path)
    renewed(folder)


def long_command(folder: Path) -> None:
    told = "bench run --task industrial-brand --method mine.py:Mine --seed 0 --scale small --ruleset tuned"
    record(first(folder), fields(command=f"{told} --data-dir /home/ada"))


def shifted_gap(folder: Path) -> None:
    """The gap and its scaled form are moved towards the oracle together, in one of two results that share it."""

    def change(content: dict[str, Any]) -> None:
        for value in content["metrics"]:
            if value["metric"] == "gap.hr@10" and value["group"] == "forget" and value["beam"] == 10:
                value["value"] *= 0.999
                scaled = value["value"] / value["sd"]
            elif value["metric"] == "gapz.hr@10" and value["group"] == "forget" and value["beam"] == 10:
                value["value"] = scaled

    stages = json.loads((first(folder) / "result.json").read_text())["stages"]
    for place in places(folder):
        record(place, fields(stages=stages))
    record(first(folder), change)


def said_to_be_withheld(folder: Path) -> None:
    """The column family is there, and the table says that it is not."""
    raw_table(first(folder), lambda content: content.replace_schema_metadata({"withheld": "influence"}))


RESULTS: dict[str, tuple[str, str, Alteration]] = {
    "an aggregate edited": ("rescored", "is 0.01 (n", on_metric("ndcg@10", value=0.01)),
    "a spread edited": ("rescored", "sd 0.001, interval", on_metric("hr@10", sd=0.001)),
    "an interval edited": (
        "rescored",
        "interval (0.0, 1.0)) in the record, the table gives",
        on_metric("collateral.prefix.hr@10", interval=[0.0, 1.0]),
    ),
    "an interval made up": (
        "rescored",
        "interval (0.0, 1.0)) in the record, the table gives",
        on_metric("hr@10", interval=[0.0, 1.0]),
    ),
    "a number of examples edited": ("rescored", "(n 7, sd", on_metric("hr@10", n=7)),
    "an unwelcome metric left out": (
        "rescored",
        "mrr@10 (forget, beam 10) is missing in the record",
        lambda folder: record(
            first(folder),
            lambda content: content.update(metrics=[v for v in content["metrics"] if v["metric"] != "mrr@10"]),
        ),
    ),
    "ranks improved": ("rescored", "hr@1 (retain, beam 10) is", on_table(better_ranks, rescore=False)),
    "impossible hits, everything rescored": ("rows", "in a list of concept items alone", on_table(hidden_hits)),
    "rows dropped": ("rows", "the rows are not the 40 test examples of the manifest", on_table(lambda f: f.drop(0))),
    "rows duplicated": (
        "rows",
        "the rows are not the 40 test examples of the manifest",
        on_table(lambda f: pd.concat([f.iloc[:1], f])),
    ),
    "rows reordered": ("rows", "the rows are not the 40 test examples of the manifest", on_table(reordered)),
    "rows added": (
        "rows",
        "the rows are not the 40 test examples of the manifest",
        on_table(lambda f: pd.concat([f.iloc[:40], f.iloc[39:40].assign(example=40, user=99), f.iloc[40:]])),
    ),
    "blocks in another order": (
        "rows",
        "not those of the protocol in their order",
        on_table(lambda f: pd.concat([f[f["group"] == "retain"], f[f["group"] == "forget"]])),
    ),
    "a rank of no list": (
        "rows",
        "rank lies outside 0 … 10",
        on_table(lambda f: f.assign(rank=f["rank"].mask(f.index == 0, 11))),
    ),
    "a cosine above one": (
        "rows",
        "mean_similarity lies outside -1 … 1",
        on_table(lambda f: f.assign(mean_similarity=f["mean_similarity"].mask(f.index == 3, 1.5))),
    ),
    "more concept items than items": (
        "rows",
        "concept_in_list is more than the list holds",
        on_table(lambda f: f.assign(concept_in_list=11)),
    ),
    "an infinite distance": (
        "rows",
        "js_forget lies outside 0 … 1",
        on_table(lambda f: f.assign(js_forget=f["js_forget"].where(f["js_forget"].isna(), np.inf)), rescore=False),
    ),
    "tables swapped between seeds": ("rescored", "more)", swapped_tables),
    "a stream told as one request": ("command", "the command has --requests 4, the record is of 1", asked_in_four),
    "seeds relabelled": ("command", "the command has --seed 0, the record is of 1", relabelled_seeds),
    "a seed copied": ("twins", "the seeds 0 and 1 have the same lists: 100%", copied_seed),
    "a seed left out": ("seeds", "the cell has the seeds 0, the submission declares 0, 1", one_seed_less),
    "seeds picked": ("seeds", "not 0, 1, 2 … without gaps", picked_seeds),
    "reported at a tuning seed": ("seeds", "the cell has the seeds 1, 9000, the submission declares 0, 1", tuning_seed),
    "a cell claimed twice": ("same-cell", "2 results claim the same cell", twice),
    "a scale that does not exist": ("versions", "there is no scale 'huge'", on_record(cell__scale="huge")),
    "another protocol": ("versions", "made under protocol version 1, this is 2", on_record(protocol_version=1)),
    "another schema": ("versions", "the record has schema version 7", on_record(schema_version=7)),
    "another task's folder": ("versions", "the folder is not where its record belongs", on_record(key="0" * 64)),
    "another dataset": (
        "manifests",
        "on another task or dataset than its manifest's",
        on_record(dataset_digest="0" * 64),
    ),
    "another resolution of the task": (
        "manifests",
        "on another task or dataset than its manifest's",
        on_record(task_digest="0" * 64),
    ),
    "the wrong manifest": ("manifests", "does not match its name, or its own digest", swapped_manifest),
    "a manifest edited": (
        "manifests",
        "does not match its name, or its own digest",
        edited_text("manifests/industrial-brand.json", '"draws": 3', '"draws": 1'),
    ),
    "a manifest edited, digest renewed": (
        "manifests",
        "not what the task 'demo-brand' resolves to: the task resolves to something else",
        other_manifest("demo-brand", draws=1234),
    ),
    "a manifest of other data": (
        "manifests",
        "not what the task 'industrial-brand' resolves to: the task resolves to something else",
        other_manifest("industrial-brand", dataset_digest="e" * 64),
    ),
    "a manifest of an older version": (
        "manifests",
        "the manifest is of version 4 of the task",
        other_manifest("industrial-brand", version=4),
    ),
    "invariants broken": ("scores", "HR@5 <= HR@10 is broken", on_metric("hr@5", value=0.99)),
    "an oracle that cannot be": (
        "scores",
        "the oracle that the gaps imply is broken",
        on_metric("gap.hr@10", value=0.9),
    ),
    "a weaker recommender": (
        "recommenders",
        "set up differently than in results/industrial-brand/tiger/mine/",
        lambda folder: record(places(folder)[1], fields(backbone_config={"layers": 1})),
    ),
    "threads of no machine": ("cost", "1000000 threads", on_record(environment__threads=10**6)),
    "gaps against another oracle": ("oracles", "rests on another number of the retrained model", shifted_gap),
    "a scaled gap edited": ("scores", "gapz is not gap / sd", on_metric("gapz.hr@10", value=0.0)),
    "an excess edited": (
        "scores",
        "not the difference of its two sides",
        on_metric("collateral-excess.prefix.hr@10", value=0.5),
    ),
    "a negative cost": ("cost", "no run can cost this: unlearn_seconds=-3.0", on_record(cost__unlearn_seconds=-3.0)),
    "a share that is not one": ("cost", "share_of_retraining is 0.01", on_record(cost__share_of_retraining=0.01)),
    "a derived cost among the metrics": (
        "cost",
        "cost.total-share is not the record's own cost",
        on_metric("cost.steps", metric="cost.total-share"),
    ),
    "a cost metric edited": ("cost", "cost.steps is not the record's own cost", on_metric("cost.steps", value=1.0)),
    "a command with a path": ("texts", "holds the path '/home/ada' of somebody's machine", long_command),
    "a report with a path": ("texts", "holds the path '/home/ada/x'", on_record(report={"weights": "/home/ada/x"})),
    "a kernel's build": (
        "texts",
        "names the build of somebody's kernel",
        on_record(environment__platform="Linux-6.1.0-13-amd64-x86_64-with-glibc2.36"),
    ),
    "trials over the limit": (
        "tuning",
        "13 configurations were tried, ruleset and declared space allow 12",
        on_record(cost__tuning_trials=13),
    ),
    "trials not counted": ("tuning", "counts no trial", on_record(cost__tuning_trials=0)),
    "a fixed ruleset with two configurations": (
        "tuning",
        "the ruleset fixed allows one configuration",
        on_demo_record(method_config={"lr": 1.0}),
    ),
    "a ruleset that is not declared": (
        "declared",
        "the results are of the rulesets",
        lambda folder: words(folder, lambda c: c.update(rulesets=["fixed"])),
    ),
    "somebody else's results": ("declared", "the result is of the method 'tracer'", on_record(cell__method="tracer")),
    "the method's file changed": (
        "method-file",
        "4 of 4 results were made with another file",
        edited_text("method.py", "return recommender", "return recommender  # well"),
    ),
    "no demo cell": ("demo", "there is no result on the demo", without_demo),
    "withheld and there": ("rows", "the family 'influence' is said to be withheld", said_to_be_withheld),
    "results of two sources": (
        "method-file",
        "1 of 4 results were made with another file",
        on_demo_record(method_digest="0" * 64),
    ),
    "a name that is taken": (
        "names",
        "looks like the name of the suite's own 'tracer'",
        lambda folder: words(folder, lambda content: content["method"].update(name="tracer")),
    ),
    "a folder of another name": (
        "names",
        "the folder is called 'mine', the submission 'yours'",
        lambda folder: words(folder, lambda content: content.update(name="yours")),
    ),
    "a method of another name": (
        "method-file",
        "has no class with name = 'hers'",
        lambda folder: words(folder, lambda content: content["method"].update(name="hers")),
    ),
}
