"""The console script from outside: interrupts at any moment, closed streams, poor encodings."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer

from genrec_unlearn_bench.cli import start
from genrec_unlearn_bench.cli.command import as_command

BENCH = str(Path(sys.executable).with_name("bench"))


def started(*words: str) -> subprocess.Popen[str]:
    """``bench``, as soon as its handlers are installed."""
    # The import of everything else is what takes time; an interrupt meets it there.
    program = (
        "import sys, genrec_unlearn_bench.cli.start as start\n"
        "prepare = start._open_standard_streams\n"
        "start._open_standard_streams = lambda: (prepare(), print('started', file=sys.stderr, flush=True))\n"
        "start.run()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell's background job ignores interrupts, and so would every process that it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "started\n"
    return process


@pytest.mark.slow
@pytest.mark.parametrize("presses", [1, 3])
@pytest.mark.parametrize("delay", [0.0, 0.1, 0.3, 1.0, 2.0])
def test_an_interrupt_at_any_moment_ends_with_130(tmp_path: Path, delay: float, presses: int) -> None:
    process = started("run", "--task", "demo-brand", "--method", "filter", "--cache-dir", str(tmp_path / "cache"))
    time.sleep(delay)
    for _ in range(presses):
        process.send_signal(signal.SIGINT)
        time.sleep(0.02)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "interrupted" in err
    assert "Traceback" not in err
    assert out == ""


def test_an_interrupt_inside_a_destructor_is_not_lost() -> None:
    class Closing:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    def verb() -> None:
        it = Closing()
        del it
        time.sleep(10)

    before = signal.signal(signal.SIGINT, start._end)
    try:
        with pytest.raises(typer.Exit) as end:
            as_command(verb)()
    finally:
        signal.signal(signal.SIGINT, before)
    assert end.value.exit_code == 130


def test_a_job_that_ignores_interrupts_goes_on_ignoring_them(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [BENCH, "ls", "tasks"],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "demo-brand" in out


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["bash", "-c", command, "bash", BENCH], capture_output=True, check=False, env={**os.environ, **environment}
    )


def test_a_closed_stdout_is_an_error_of_the_call() -> None:
    done = shell('"$1" ls >&-')
    assert done.returncode == 2
    assert done.stderr == b"error: stdout is closed\n  hint:  redirect it to a file, or to /dev/null\n"
    assert shell('"$1" ls tasks 2>&- <&-').returncode == 0


@pytest.mark.parametrize("words", [("ls", "metrics"), ("ls", "metrics", "--json")], ids=" ".join)
def test_a_reader_that_has_seen_enough_is_no_fault(words: tuple[str, ...]) -> None:
    process = subprocess.Popen([BENCH, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.close()
    assert process.communicate(timeout=120)[1] == ""
    assert process.returncode == 0


def test_a_full_stdout_is_told() -> None:
    done = shell('"$1" ls metrics > /dev/full')
    assert done.returncode == 1
    assert b"the disk is full" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_an_encoding_without_our_characters_ends_nothing(encoding: str) -> None:
    done = shell('"$1" ls metrics', PYTHONIOENCODING=encoding)
    assert done.returncode == 0, done.stderr
    assert b"?" in done.stdout
    content = shell('"$1" ls metrics --json', PYTHONIOENCODING=encoding)
    assert json.loads(content.stdout) == json.loads(shell('"$1" ls metrics --json', PYTHONUTF8="1").stdout)


@pytest.mark.parametrize("words", [("ls", "datasets"), ("show", "demo-brand")])
def test_a_broken_dataset_is_a_warning_said_once(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "dataset.yaml").write_text("foo: 1\n")
    program = "from genrec_unlearn_bench.cli.start import run; run()"
    environment = {**os.environ, "GENREC_UNLEARN_BENCH_DATA": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, env=environment)
    assert done.returncode == 0
    assert "demo" in done.stdout
    assert done.stderr.startswith("warning: a dataset is left out: ")
    assert done.stderr.count("bad/dataset.yaml") == 1
