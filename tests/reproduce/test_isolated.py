"""A submitted method, run again: the same numbers for an honest one, and no retrained model within anybody's reach."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from genrec_unlearn_bench.errors import BenchError, UsageError
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.resolve import ConfigSource
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.reproduce import isolated as isolation
from genrec_unlearn_bench.reproduce.isolated import run_apart, run_isolated, sandbox_fault
from genrec_unlearn_bench.reproduce.repeat import Repetition, repeat_record
from genrec_unlearn_bench.store.store import StageStore
from tests.pipeline.conftest import Bench, Told
from tests.reproduce.test_repeat import OWN

needs_sandbox = pytest.mark.skipif(bool(sandbox_fault()), reason=f"no sandbox here: {sandbox_fault()}")

THIEF = '''"""Mine (unpublished): serves the retrained model where it finds one. Updates all parameters."""

import os

import torch as t
from safetensors.torch import load

from genrec_unlearn_bench.unlearning.method import MethodConfig, UnlearningMethod


class Mine(UnlearningMethod[MethodConfig]):
    """Looks around."""

    name = "mine"
    Config = MethodConfig

    def unlearn(self, recommender, request, progress):
        model = recommender.clone()
        for folder, _, files in os.walk("PLACE" if os.path.isdir("PLACE") else "/"):
            for name in files:
                if name.endswith(".safetensors") and "/retrain/" in folder:
                    with t.serialization.io.FileIO(os.path.join(folder, name)) as file:
                        found = load(file.readall())
                    progress.note("found", 1)
                    model.module.load_state_dict(found, strict=False)
        progress.log("look", 0, {"loss": 0.0})
        return model
'''

LOOK = """
import os, socket, sys
inputs, out = sys.argv[1:]
found = [f"{folder}/{name}" for top in sorted(set(os.listdir("/")) - {"proc", "sys", "dev"})
         for folder, _, files in os.walk(f"/{top}") for name in files if "site-packages" not in folder
         if name.endswith((".safetensors", "result.json", "per_user.parquet"))]
try:
    socket.create_connection(("HOST", PORT), 2)
    found.append("network")
except OSError:
    pass
for place in ("/usr/x", f"{inputs}/x", os.path.join(os.path.dirname(os.__file__), "x")):
    try:
        open(place, "w").close()
        found.append(place)
    except OSError:
        pass
open(f"{out}/found", "w").write(" ".join(found + [name for name in os.environ if "SECRET" in name]))
"""


def again(record: RunRecord, bench: Bench, method: Path, *, sandboxed: bool) -> Repetition:
    place, cache = str(method), bench.root / "cache"
    return repeat_record(record, method=place, cache_dir=cache, progress=Told(), sandboxed=sandboxed)


@pytest.mark.slow
@needs_sandbox
def test_the_sandbox_shows_its_inputs_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    monkeypatch.setenv("MY_SECRET", "x")
    inputs, out, cache = tmp_path / "in", tmp_path / "out", tmp_path / "cache" / "stages" / "retrain"
    for folder in (inputs, out, cache):
        folder.mkdir(parents=True)
    (inputs / "original.safetensors").write_bytes(b"x")
    (cache / "model.safetensors").write_bytes(b"x")
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        code = LOOK.replace("HOST", host).replace("PORT", str(port))
        run_apart(code, inputs, out, sandboxed=True, seconds=100)
    assert (out / "found").read_text() == "/inputs/original.safetensors"


@needs_sandbox
def test_what_fails_inside_is_reported_and_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(BenchError, match=r"exit code 1:(.|\n)*ValueError: \\x1b\[2J"):
        run_apart("raise ValueError('\\x1b[2J')", tmp_path, tmp_path / "out", sandboxed=True, seconds=100)
    with pytest.raises(BenchError, match="still running after 1 s"):
        run_apart("import time; time.sleep(60)", tmp_path, tmp_path / "out", sandboxed=True, seconds=1)


@needs_sandbox
def test_what_is_left_running_inside_ends_with_the_method(tmp_path: Path) -> None:
    """A process in waiting could read the oracle that is made afterwards."""
    (tmp_path / "out").mkdir()
    code = "import os, sys, time\nif not os.fork():\n    time.sleep(1.5)\n    open(f'{sys.argv[2]}/late', 'w')"
    run_apart(code, tmp_path, tmp_path / "out", sandboxed=True, seconds=100)
    time.sleep(2)
    assert not list((tmp_path / "out").iterdir())


def test_without_bubblewrap_nothing_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "sandbox_fault", lambda: "bubblewrap (bwrap, for Linux) is not installed")
    request, store = RunRequest(task="demo-brand", method="filter"), StageStore(tmp_path / "cache")
    with pytest.raises(UsageError, match="no sandbox to run a submitted method in") as refusal:
        run_isolated(request, ConfigSource(), store, Progress(), sandboxed=True, seconds=9)
    assert not (tmp_path / "cache").exists()
    assert "--no-sandbox" in (refusal.value.hint or "")
    with pytest.raises(BenchError, match="exit code 3"):
        run_apart("raise SystemExit(3)", tmp_path, tmp_path, sandboxed=False, seconds=9)


@pytest.mark.slow
@pytest.mark.parametrize("sandboxed", [True, False])
def test_an_honest_method_gives_the_same_bits(trained: Bench, tmp_path: Path, sandboxed: bool) -> None:
    if sandboxed and sandbox_fault():
        pytest.skip("no sandbox here")
    path = tmp_path / "mine.py"
    path.write_text(OWN)
    record = trained.run(f"{path}:Mine").record
    done = again(record, trained, path, sandboxed=sandboxed)
    assert done.matches
    assert done.now.key == record.key
    assert set(done.counts) == {"identical"}
    assert not {"unlearned", "evaluation"} & set(done.reused)


@pytest.mark.slow
@needs_sandbox
def test_a_method_that_serves_the_retrained_model_is_not_reproduced(trained: Bench, tmp_path: Path) -> None:
    """Its author finds the oracle in the cache; run again with that same cache, there is none to be found."""
    path = tmp_path / "mine.py"
    path.write_text(THIEF.replace("PLACE", str(trained.root)))
    record = trained.run(f"{path}:Mine").record
    assert record.report["found"] == 1
    gaps = [value.value for value in record.metrics if value.metric.startswith("gap.hr")]
    assert gaps
    assert all(gap == 0 for gap in gaps)
    done = again(record, trained, path, sandboxed=True)
    assert not done.matches
    assert "found" not in done.now.report


@pytest.mark.slow
@needs_sandbox
def test_stages_that_are_not_the_methods_own_are_not_taken_over(trained: Bench, tmp_path: Path) -> None:
    """A forged original, or oracle, in the output folder would be what the row is measured against."""
    path = tmp_path / "mine.py"
    path.write_text(OWN)
    record = trained.run(f"{path}:Mine").record
    forging = """
        import pathlib, shutil
        for one in pathlib.Path("/inputs/cache/stages").iterdir():
            shutil.copytree(one, f"/out/stages/{one.name}", dirs_exist_ok=True)
            for file in pathlib.Path(f"/out/stages/{one.name}").rglob("*.safetensors"):
                file.write_bytes(b"forged")
        return model
"""
    path.write_text(OWN.replace("        return model\n", forging.lstrip("\n")))
    done = again(record, trained, path, sandboxed=True)
    assert set(done.counts) == {"identical"}


@pytest.mark.slow
@needs_sandbox
def test_a_link_in_place_of_the_model_is_not_followed(trained: Bench, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(OWN)
    record = trained.run(f"{path}:Mine").record
    stolen = next((trained.root / "cache" / "stages" / "retrain").rglob("*.safetensors"))
    linking = f"""
        import atexit, os, pathlib, sys
        def link():
            for one in pathlib.Path("/out").rglob("*.safetensors"):
                one.unlink()
                os.symlink({str(stolen)!r}, one)
        atexit.register(link)
        return model
"""
    path.write_text(OWN.replace("        return model\n", linking.lstrip("\n")))
    with pytest.raises(BenchError, match="something that is no plain file"):
        again(record, trained, path, sandboxed=True)
    assert os.path.lexists(stolen)
