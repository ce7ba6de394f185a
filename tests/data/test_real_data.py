"""The real files, where they are at hand: the counts that their description states, and how long reading takes.

Skipped unless GENREC_UNLEARN_BENCH_DATA names the folder that holds them.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest

from genrec_unlearn_bench.data.catalogue import DATA_VARIABLE, find_dataset
from genrec_unlearn_bench.data.dataset import Dataset, load_dataset, save_dataset
from genrec_unlearn_bench.data.fields import brand_key
from genrec_unlearn_bench.data.formats.lines import read_lines
from genrec_unlearn_bench.data.formats.records import read_index
from genrec_unlearn_bench.data.locate import locate
from genrec_unlearn_bench.data.prepare import prepare
from genrec_unlearn_bench.data.splits import k_core
from genrec_unlearn_bench.progress import Progress
from tests.data.formats.files import read_as, write_lines

pytestmark = pytest.mark.skipif(not os.environ.get(DATA_VARIABLE), reason=f"{DATA_VARIABLE} is not set")


def real(name: str, k: int | None = None) -> Dataset:
    spec = find_dataset(name)
    spec = spec if k is None else spec.model_copy(update={"k_core": k})
    return prepare(spec, None, Progress())


@pytest.mark.parametrize(
    ("name", "k", "items", "users", "interactions", "parts", "brands", "prices"),
    [
        ("industrial", None, 3686, 5695, 28950, (19885, 4532, 4533), 3659, 0),
        ("toys-2014", None, 11924, 19412, 167597, (109361, 19412, 19412), 9506, 0),
        ("sports-2014", None, 18357, 35598, 296337, (189543, 35598, 35598), 10996, 0),
        ("steam", 3, 1039, 6122, 27904, (17425, 2178, 2179), 1011, 1017),
        ("steam", 5, 475, 2075, 12709, None, None, None),
        ("steam", 0, 3195, None, None, None, 3091, 3094),
        ("instruments-letter", None, 9922, 24772, 206153, (131837, 24772, 24772), 0, 0),
    ],
)
def test_counts(
    name: str,
    k: int | None,
    items: int,
    users: int | None,
    interactions: int | None,
    parts: tuple[int, int, int] | None,
    brands: int | None,
    prices: int | None,
) -> None:
    start = time.process_time()
    manifest = real(name, k).manifest
    assert time.process_time() - start < 10
    assert manifest.items == items
    assert users is None or manifest.users == users
    assert interactions is None or manifest.interactions == interactions
    assert parts is None or (manifest.train, manifest.valid, manifest.test) == parts
    assert brands is None or manifest.with_brand == brands
    assert prices is None or manifest.with_price == prices


@pytest.mark.parametrize("name", ["toys-2014", "sports-2014", "instruments-letter"])
def test_the_2014_sets_are_5_cores_already(name: str) -> None:
    dataset = real(name)
    assert k_core(dataset.train.event_users, dataset.train.events, 5).all()


def test_round_trip(tmp_path: Path) -> None:
    dataset = real("steam")
    save_dataset(dataset, tmp_path)
    assert load_dataset(tmp_path).manifest == dataset.manifest


@pytest.mark.parametrize("name", ["industrial", "steam", "sports-2014", "toys-2014"])
def test_one_spelling_for_each_brand(name: str) -> None:
    brands = {brand for brand in real(name).items.brands if brand}
    assert len({brand_key(brand) for brand in brands}) == len(brands)


def test_undated_steam_reviews_stand_last() -> None:
    dataset = real("steam")
    new_year_2016 = 1_451_606_400
    assert dataset.train.times.min() < new_year_2016 <= dataset.valid.times.min()


@pytest.mark.parametrize(("name", "distinct", "levels"), [("industrial", 3670, 3), ("instruments-letter", 9897, 4)])
def test_published_semantic_ids(name: str, distinct: int, levels: int) -> None:
    files = locate(find_dataset(name), None, Progress()).parts
    codes = read_index(files["index"][0], real(name).items.ids)
    assert codes.shape[1] == levels
    assert len(np.unique(codes, axis=0)) == distinct
    assert codes.max() < 256
    assert codes.min() >= 0


def test_raw_metadata_sample(tmp_path: Path) -> None:
    path = Path(os.environ[DATA_VARIABLE]) / "amazon-2018-meta-sample" / "meta_Magazine_Subscriptions.json.gz"
    asins = [json.loads(line)["asin"] for _, line in read_lines(path)]
    reviews = ({"reviewerID": "a", "asin": asin, "unixReviewTime": 1} for asin in asins)
    raw = read_as("amazon-2018", {"meta": path, "reviews": write_lines(tmp_path / "reviews.json", reviews)})
    items = raw.items
    assert len(items) == 400
    assert sum(1 for title in items.titles if title) == 40
    assert sum(1 for brand in items.brands if brand) == 359
    assert not any("&amp;" in text or "<" in text for text in (*items.titles, *items.brands, *items.descriptions))
    assert not any("&amp;" in name for path_ in items.categories for name in path_)
    assert items.brands.count("F&W Publications") == 14
    assert not raw.dropped
