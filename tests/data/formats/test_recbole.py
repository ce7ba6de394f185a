"""RecBole's atomic files and MovieLens's own, from what they look like to concepts on them."""

from __future__ import annotations

import resource
import time
from pathlib import Path

import numpy as np
import pytest

from genrec_unlearn_bench.data.catalogue import TableMapping, find_dataset
from genrec_unlearn_bench.data.concepts import resolve
from genrec_unlearn_bench.data.prepare import import_folder, prepare
from genrec_unlearn_bench.data.scrub import scrubbed_items
from genrec_unlearn_bench.data.tasks import find_task
from genrec_unlearn_bench.errors import ConfigError, DataFault
from genrec_unlearn_bench.progress import Progress

FILMS = {
    "Action": 503, "Adventure": 283, "Animation": 105, "Children's": 251, "Comedy": 1200, "Crime": 211,
    "Documentary": 127, "Drama": 1603, "Fantasy": 68, "Film-Noir": 44, "Horror": 343, "Musical": 114, "Mystery": 106,
    "Romance": 471, "Sci-Fi": 276, "Thriller": 492, "War": 143, "Western": 68,
}  # fmt: skip
"""Films of each genre in MovieLens-1M, about: a synthetic file needs as uneven ones."""


def atomic(folder: Path, *, item: bool = True) -> None:
    folder.mkdir()
    rows = [f"u{row % 8}\t{row % 10}\t4.0\t{881250949.0 + row}" for row in range(90)]
    header = "user_id:token\titem_id:token\trating:float\ttimestamp:float"
    (folder / "ml.inter").write_text("\n".join([header, *rows]) + "\n")
    (folder / "ml.user").write_text("user_id:token\n")
    if item:
        films = [f'{row}\tFilm "{row}" (19{row}5)\t19{row}5\tDrama Film-Noir\t{row}.5' for row in range(10)]
        header = "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq\tprice:float"
        (folder / "ml.item").write_text("\n".join([header, *films]) + "\n")


def test_atomic_files(tmp_path: Path) -> None:
    atomic(tmp_path / "ml")
    spec, found = import_folder(tmp_path / "ml", "ml", Progress(), format_name="recbole")
    assert spec.split == "global-time"
    assert found.items.titles[3] == 'Film "3" (1935)', "a title is a sequence of tokens and one text all the same"
    assert found.items.attributes["class"][3] == ("Drama", "Film-Noir")
    assert found.items.attributes["release_year"][3] == ("1935",)
    assert found.items.prices[3] == 3.5
    assert found.manifest.interactions == 90
    chosen = TableMapping.model_validate(
        {"columns": {"items": {"title": "release_year"}, "attributes": {"g": "class"}}}
    )
    _, other = import_folder(tmp_path / "ml", "ml", Progress(), format_name="recbole", mapping=chosen)
    assert other.items.titles[3] == "1935"
    assert set(other.items.attributes) == {"g", "movie_title"}


def test_columns_however_they_are_spelt(tmp_path: Path) -> None:
    atomic(tmp_path / "ml")
    path = tmp_path / "ml" / "ml.item"
    text = path.read_text().replace("price:float", "Price:float").replace("release_year:", "Release-Year:")
    path.write_text(text.replace("class:token_seq", "Forget-\u00fc:token_seq").replace("movie_title", "2nd"))
    _, found = import_folder(tmp_path / "ml", "ml", Progress(), format_name="recbole")
    assert found.items.prices[3] == 3.5
    assert found.items.attributes["release_year"][3] == ("1935",)
    assert found.items.attributes["forget__"][3] == ("Drama", "Film-Noir")
    assert found.manifest.dropped["column '2nd' of items is not read"] == 1


def test_columns_that_are_missing_or_there_twice(tmp_path: Path) -> None:
    atomic(tmp_path / "ml")
    path = tmp_path / "ml" / "ml.item"
    text = path.read_text()
    path.write_text(text.replace("item_id:", "film:"))
    with pytest.raises(DataFault, match="no column item_id"):
        import_folder(tmp_path / "ml", "ml", Progress(), format_name="recbole")
    path.write_text(text.replace("release_year:token", "item_id:token"))
    with pytest.raises(DataFault, match="two columns are called item_id"):
        import_folder(tmp_path / "ml", "ml", Progress(), format_name="recbole")


@pytest.mark.parametrize("name", ["text", "id", "item", "category", "categories", "title"])
def test_columns_with_names_of_fields_are_those_or_left_out(tmp_path: Path, name: str) -> None:
    atomic(tmp_path / "ml")
    path = tmp_path / "ml" / "ml.item"
    header, *rows = path.read_text().splitlines()
    more = "categories:token_seq" if name == "category" else "name:token_seq"
    added = [f"{header}\t{more}\t{name}:token_seq", *(f"{row}\tone\tof it" for row in rows)]
    path.write_text("\n".join(added) + "\n")
    mapping = TableMapping.model_validate({"columns": {"items": {"title": "class"}}}) if name == "title" else None
    _, found = import_folder(tmp_path / "ml", "ml", Progress(), format_name="recbole", mapping=mapping)
    assert not {"text", "id", "item", "category", "title"} & set(found.items.attributes)
    assert found.items.texts[0] == ("of it" if name == "text" else "")
    assert found.items.categories[0] == {"categories": ("of", "it"), "category": ("one",)}.get(name, ())


def test_atomic_files_without_items_or_times(tmp_path: Path) -> None:
    atomic(tmp_path / "ml", item=False)
    found = import_folder(tmp_path / "ml", "ml", Progress(), format_name="recbole")[1]
    assert found.items.ids == tuple(map(str, range(10)))
    path = tmp_path / "ml" / "ml.inter"
    path.write_text(path.read_text().replace("timestamp:float", "moment:float"))
    with pytest.raises(DataFault, match="no column timestamp"):
        import_folder(tmp_path / "ml", "ml", Progress(), format_name="recbole")
    path.write_text(path.read_text().replace("user_id:token", "who:token"))
    with pytest.raises(DataFault, match="no column user_id"):
        import_folder(tmp_path / "ml", "ml", Progress(), format_name="recbole", split="leave-one-out")


GIVEN = {
    "train": ["s1\ta b\tc", "s2\tb\ta", "s3\tc a b\ta"],
    "valid": ["s1\ta b c\ta"],
    "test": ["s2\tb a\tc", "s9\tc\tb"],
}
"""Sessions as RecBole augments them: who, what came before, and the target."""


def sessions(folder: Path, between: str = " ", **changed: str) -> Path:
    folder.mkdir()
    for part, rows in GIVEN.items():
        text = "\n".join(["session_id:token\titem_id_list:token_seq\titem_id:token", *rows]) + "\n"
        (folder / f"shop.{part}.inter").write_text(changed.get(part, text).replace(" ", between))
    (folder / "shop.item").write_text("item_id:token\ttitle:token_seq\na\tRed tent\nb\tStove\nc\tLamp\n")
    return folder


def by_session(split: str | None = None) -> TableMapping:
    history = {"history": {"from": "item_id_list", "split": split}} if split else {}
    return TableMapping.model_validate({"columns": {"interactions": {"user": "session_id", **history}}})


@pytest.mark.parametrize("between", [None, ", "])
def test_lists_of_items_are_histories_of_given_rows(tmp_path: Path, between: str | None) -> None:
    folder = sessions(tmp_path / "shop", between or " ")
    spec, found = import_folder(folder, "shop", Progress(), format_name="recbole", mapping=by_session(between))
    assert (spec.split, found.manifest.users, found.items.ids) == ("as-given", 4, ("a", "b", "c"))
    for part, rows in GIVEN.items():
        examples = getattr(found, part)
        names = [found.items.ids[target] for target in examples.targets]
        histories = [[found.items.ids[item] for item in own if item >= 0] for own in examples.histories().items]
        assert [f"{' '.join(own)}\t{name}" for own, name in zip(histories, names, strict=True)] == [
            row.partition("\t")[2] for row in rows
        ]
    assert find_dataset("shop", folder).split == "as-given"


def test_lists_of_items_that_cannot_be_used(tmp_path: Path) -> None:
    def refused(name: str, said: str, **changed: str) -> None:
        folder = sessions(tmp_path / name, **changed)
        with pytest.raises(DataFault, match=said):
            import_folder(folder, "shop", Progress(), format_name="recbole", mapping=by_session())

    header = "session_id:token\titem_id_list:token_seq\titem_id:token\n"
    refused("empty", r"shop\.valid\.inter:3: the history is no list", valid=f"{header}s1\ta b\tc\ns1\t\tc\n")
    refused("target", r"shop\.test\.inter:2: the item is empty", test=f"{header}s1\ta b\t\n")
    refused("absent", r"no column item_id_list", train="session_id:token\titem_id:token\ns1\ta\n")
    for part in ("valid", "test"):
        (tmp_path / "empty" / f"shop.{part}.inter").unlink()
    with pytest.raises(ConfigError, match="need files train, valid and test"):
        import_folder(tmp_path / "empty", "shop", Progress(), format_name="recbole", mapping=by_session())
    (tmp_path / "empty" / "shop.train.inter").rename(tmp_path / "empty" / "shop.inter")
    with pytest.raises(DataFault, match=r"item_id_list makes every line an example") as caught:
        import_folder(tmp_path / "empty", "shop", Progress(), format_name="recbole", mapping=by_session())
    assert str(caught.value.where).endswith("shop.inter:1")


def movielens(folder: Path, users: int, films: int, each: int) -> None:
    """Files as MovieLens-1M has them: latin-1, ``::`` between cells, genres with ``|``."""
    generator = np.random.default_rng(0)
    folder.mkdir(parents=True)
    lines = []
    often = np.array(list(FILMS.values()))
    for film in range(1, films + 1):
        size = generator.choice([1, 2, 3], p=[0.55, 0.34, 0.11])
        genres = generator.choice(list(FILMS), size, replace=False, p=often / often.sum())
        lines.append(f"{film}::Café no. {film}, The (1995)::{'|'.join(sorted(map(str, genres)))}\n")
    (folder / "movies.dat").write_text("".join(lines), encoding="latin-1")
    with (folder / "ratings.dat").open("w", encoding="latin-1") as sink:
        for user in range(1, users + 1):
            rated = generator.permutation(films)[:each] + 1
            at = 956_703_932 + np.sort(generator.integers(0, 90_000_000, each)) // 60 * 60
            sink.writelines(f"{user}::{film}::4::{when}\n" for film, when in zip(rated, at, strict=True))


def test_movielens_as_it_comes(tmp_path: Path) -> None:
    movielens(tmp_path / "ml-1m", 60, 120, 30)
    found = prepare(find_dataset("ml-1m"), tmp_path / "ml-1m", Progress())
    assert found.manifest.users == 60
    assert found.items.titles[4] == "Café no. 5, The (1995)"
    split = resolve(find_task("ml-1m-genre"), found)
    assert split.manifest.within_tolerance
    chosen = set(split.manifest.concepts)
    assert split.items.tolist() == [bool(chosen & set(own)) for own in found.items.categories]
    left = scrubbed_items(found.items, split).categories
    assert not any(chosen & set(own) for own in left)
    assert resolve(find_task("ml-1m-item"), found).manifest.within_tolerance


@pytest.mark.huge
def test_a_million_ratings(tmp_path: Path) -> None:
    movielens(tmp_path / "ml-1m", 6_040, 3_883, 166)
    start, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = prepare(find_dataset("ml-1m"), tmp_path / "ml-1m", Progress())
    split = resolve(find_task("ml-1m-genre"), found)
    assert found.manifest.interactions == 6_040 * 166
    assert split.manifest.within_tolerance
    # 5 s and 150 MB beyond the interpreter's own, on a machine of 2024.
    assert time.process_time() - start < 30
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < 600
