"""Ways to alter the files of a submission, each with the check that sees it and words of its message."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from genrec_unlearn_bench.reporting.results import Badge
from genrec_unlearn_bench.submissions.bundle import load
from genrec_unlearn_bench.submissions.verification import verify, write_verification
from tests.submissions import forging
from tests.submissions.forging import Alteration, demo, edited_text, first, on_record, raw_table, renewed, words


def forged_verification(folder: Path) -> None:
    found = verify(load(folder))
    write_verification(folder, found.model_copy(update={"badge": Badge.REPRODUCED}))


def stale_verification(folder: Path) -> None:
    write_verification(folder, verify(load(folder)))
    words(folder, lambda content: content.update(title="Mine, but better"))


def linked(folder: Path) -> None:
    path = demo(folder) / "per_user.parquet"
    path.unlink()
    path.symlink_to("/etc/passwd")


def executable(folder: Path) -> None:
    (folder / "method.py").chmod(0o755)


def oversized(folder: Path) -> None:
    with (folder / "method.py").open("ab") as file:
        file.write(b"# " + b"x" * (300 << 10) + b"\n")
    renewed(folder)


def pickled(content: pa.Table) -> pa.Table:
    """Ranks as pickles would be stored."""
    values = [f"\x80\x04K{rank}.".encode("latin-1") for rank in content.column("rank").to_pylist()]
    return content.set_column(content.schema.get_field_index("rank"), "rank", pa.array(values, pa.binary()))


def named(content: pa.Table) -> pa.Table:
    """Users by their number in the dataset."""
    values = [user + 5 for user in content.column("user").to_pylist()]
    return content.set_column(content.schema.get_field_index("user"), "user", pa.array(values, pa.int64()))


def chosen(content: pa.Table) -> pa.Table:
    """What users chose, by its number in the dataset."""
    values = pa.array(range(content.num_rows), pa.int64())
    return content.set_column(content.schema.get_field_index("target"), "target", values)


def not_parquet(folder: Path) -> None:
    (first(folder) / "per_user.parquet").write_bytes(b"\x80\x04pickle")
    forging.sealed(first(folder), None)


def bombed(folder: Path) -> None:
    lines = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 30))]
    (folder / "submission.yaml").write_text("\n".join(lines), encoding="utf-8")


def deep(folder: Path) -> None:
    (folder / "submission.yaml").write_text("title: " + "[" * 5000 + "]" * 5000, encoding="utf-8")


def deep_json(folder: Path) -> None:
    (first(folder) / "result.json").write_text("[" * 100_000 + "]" * 100_000, encoding="utf-8")
    renewed(folder)


FILES: dict[str, tuple[str, str, Alteration]] = {
    "users named": (
        "rows",
        "the table says what users chose, or their numbers are not in order",
        lambda folder: raw_table(first(folder), named),
    ),
    "targets told": (
        "rows",
        "the table says what users chose, or their numbers are not in order",
        lambda folder: raw_table(first(folder), chosen),
    ),
    "a table with more columns": (
        "table",
        "there are some that no result has: secret",
        lambda folder: raw_table(first(folder), lambda t: t.append_column("secret", t.column("rank"))),
    ),
    "a table of objects": ("table", "no result has: rank (binary)", lambda folder: raw_table(first(folder), pickled)),
    "a table that is no parquet": ("table", "not a readable parquet file", not_parquet),
    "control characters": ("texts", "holds the invisible character U+001B", on_record(notes=["\x1b[2J"])),
    "text that runs backwards": (
        "submission",
        "holds the invisible character U+202E",
        lambda folder: words(folder, lambda c: c.update(title="a\u202eb")),
    ),
    "NaN in the record": (
        "records",
        "NaN is no finite number",
        lambda folder: edited_text(
            f"{first(folder).relative_to(folder)}/result.json", '"peak_memory_mib": 300.0', '"peak_memory_mib": NaN'
        )(folder),
    ),
    "a key twice in JSON": (
        "records",
        "the key 'steps' is there twice",
        lambda folder: edited_text(
            f"{first(folder).relative_to(folder)}/result.json", '"steps": 40', '"steps": 1, "steps": 40'
        )(folder),
    ),
    "deep JSON": ("records", "not plain JSON: it is nested too deep", deep_json),
    "a record with unknown fields": ("records", "does not fit its schema: applause", on_record(applause=1)),
    "statements not affirmed": (
        "submission",
        "are not affirmed: no-oracle",
        lambda folder: words(folder, lambda c: c["affirmed"].remove("no-oracle")),
    ),
    "a file beside": (
        "files",
        "a file that has no place here",
        lambda folder: (folder / "notes.txt").write_text("x") and None,
    ),
    "a file that is not listed": (
        "contents",
        "added, removed or changed after submission.yaml was made",
        lambda folder: words(folder, lambda c: c["contents"].pop("method.py")),
    ),
    "a file changed after listing": (
        "contents",
        "added, removed or changed after submission.yaml was made",
        edited_text("method.py", "Does nothing", "Does all", renew=False),
    ),
    "a table without digest": ("tables", "not the one that its result.json names", on_record(per_user_digest="0" * 64)),
    "a link": ("files", "there is a link, or something else that is no file", linked),
    "an executable": ("files", "there is an executable file", executable),
    "a file that is too large": ("files", "a file is too large", oversized),
    "a YAML bomb": ("submission", "anchors, aliases and tags are not read", bombed),
    "deep YAML": ("submission", "is nested deeper than 24 levels", deep),
    "a key twice in YAML": (
        "submission",
        "a key is there twice",
        edited_text("submission.yaml", "title:", "title: Hers\ntitle:", renew=False),
    ),
    "a YAML tag": (
        "submission",
        "anchors, aliases and tags are not read",
        edited_text("submission.yaml", "title: Mine", "title: !!python/name:os.system Mine", renew=False),
    ),
    "verification.json forged": ("claim", "says reproduced about badge, found was re-scored", forged_verification),
    "verification.json of before": ("claim", "or is of another content than this", stale_verification),
}
