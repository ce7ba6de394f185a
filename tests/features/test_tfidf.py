from __future__ import annotations

import numpy as np
import pytest

from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.features.encoders import tfidf, unit_rows
from genrec_unlearn_bench.progress import Progress
from tests.data import demo_world as demo


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return demo.generate().items.plain_text()


def test_repeated_runs_agree_to_the_bit(texts: list[str]) -> None:
    first = tfidf(texts, 64, Progress())
    assert first.shape == (400, 64)
    assert first.dtype == np.float32
    assert np.array_equal(first, tfidf(texts, 64, Progress()))


def test_rows_have_unit_length_and_components_a_fixed_sign(texts: list[str]) -> None:
    rows = tfidf(texts, 32, Progress())
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-6)
    # The first component of non-negative data has loadings of one sign; svd_flip makes it the positive one.
    assert (rows[:, 0] > 0).mean() > 0.99


def test_cosines_are_those_of_the_full_matrix_where_nothing_is_cut_off() -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    small = [f"word{a} word{b} word{a} extra{a % 3}" for a in range(6) for b in range(5)]
    rows = tfidf(small, 512, Progress()).astype(np.float64)
    assert rows.shape[1] == 30, "capped by the number of texts"
    full = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True).fit_transform(small).toarray()
    np.testing.assert_allclose(rows @ rows.T, full @ full.T, atol=1e-5)


def test_items_of_one_shelf_are_nearest(texts: list[str]) -> None:
    raw = demo.generate()
    rows = tfidf(texts, 128, Progress())
    cosines = rows @ rows.T
    np.fill_diagonal(cosines, -1)
    shelves = np.asarray([path[1] for path in raw.items.categories])
    nearest = shelves[cosines.argmax(axis=1)]
    assert (nearest == shelves).mean() > 0.8


def test_words_of_a_single_text_do_not_count_in_large_catalogues() -> None:
    rows = tfidf([*["common words here"] * 199, "singular"], 8, Progress())
    assert not rows[-1].any()
    assert tfidf(["common words here", "singular"], 8, Progress())[-1].any()


def test_texts_without_words_are_refused() -> None:
    with pytest.raises(DataFault, match="no words"):
        tfidf(["!", "?"], 8, Progress())


def test_unit_rows_keep_zero_rows() -> None:
    found = unit_rows(np.asarray([[3.0, 4.0], [0.0, 0.0], [1e-30, 0.0], [-2.0, 0.0]]))
    np.testing.assert_allclose(found, [[0.6, 0.8], [0, 0], [0, 0], [-1, 0]], atol=1e-7)


def test_large_catalogues_are_projected_on_what_a_part_of_them_taught(
    texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("genrec_unlearn_bench.features.encoders.LARGEST_FIT", len(texts) // 2)
    monkeypatch.setattr("genrec_unlearn_bench.features.encoders._BLOCK", 33)
    rows = tfidf(texts, 32, Progress())
    assert rows.shape == (len(texts), 32)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-6)
    # The rows of the part are, but for rounding, those of the part alone.
    monkeypatch.undo()
    part = tfidf(texts[::2], 32, Progress())
    np.testing.assert_allclose(rows[::2] @ rows[::2].T, part @ part.T, atol=1e-4)
