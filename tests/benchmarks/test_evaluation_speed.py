"""A whole evaluation against Hugging Face's ``generate`` alone: same model, same histories, same beams, same run.

Ours decodes both beams, decodes again without the concept's items, and works out every core metric and the table of
users. The peer only generates, held to the catalogue by ``prefix_allowed_tokens_fn``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.backbones.config import T5Shape
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.data import concepts
from genrec_unlearn_bench.data.catalogue import find_dataset
from genrec_unlearn_bench.data.prepare import prepare
from genrec_unlearn_bench.data.tasks import find_task
from genrec_unlearn_bench.evaluation.decode import EvaluationContext
from genrec_unlearn_bench.evaluation.ranking import BEAMS, TEST_GROUPS
from genrec_unlearn_bench.features.item_features import ItemFeatures
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.table import SidTable
from tests.benchmarks.timing import Duel, timed
from tests.decoding.hugging_face import generate
from tests.evaluation.planted import evaluated

pytestmark = pytest.mark.speed

HISTORY, PEER_ROWS, FLOOR = 10, 32, 4.0
SIZES = (256, 256, 256)


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """One, so that processor time is measured."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_evaluation_against_generate() -> None:
    dataset = prepare(find_dataset("demo"), None, Progress())
    split = concepts.resolve(find_task("demo-brand"), dataset)
    draw = np.random.default_rng(0)
    table = SidTable(draw.integers(256, size=(len(dataset.items), 3)), SIZES, 3)
    vectors = draw.normal(size=(len(dataset.items), 32)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    shape = T5Shape(d_model=128, d_kv=32, d_ff=512, layers=2, heads=4, history_limit=HISTORY)
    model = T5Recommender.fresh(shape, table, seed=0)
    model.model.shared.weight.data.mul_(3.0)
    model.model.eval()
    features = ItemFeatures(vectors, vectors, "random")
    context = EvaluationContext(model, table, dataset.items, split, features, 0)
    rows = sum(len(context.test(group)) for group in TEST_GROUPS)
    histories = context.test(TEST_GROUPS[1]).histories(HISTORY)
    full = histories.rows(np.argsort(histories.lengths)[-4 * PEER_ROWS :][:PEER_ROWS])

    def theirs() -> None:
        known = full.items >= 0
        ids = np.where(known[..., None], table.codes[full.items] + np.asarray(model.vocabulary.offsets), 0)
        inputs, mask = torch.from_numpy(ids.reshape(len(full), -1)), torch.from_numpy(np.repeat(known, 3, axis=1))
        for beam in BEAMS:
            generate(model.model, inputs, mask, table.codes, tuple(model.vocabulary.offsets), beam)

    evaluated(context)  # imports pandas
    before, (took, evaluation), after = timed(theirs)[0], timed(lambda: evaluated(context)), timed(theirs)[0]
    assert len(evaluation.per_user) == rows * len(BEAMS)
    result = Duel(took / rows, min(before, after) / PEER_ROWS)
    result.report("evaluation (demo)", note=f" a test row; HF on {PEER_ROWS} of {rows} rows, lists alone")
    assert result.ratio >= FLOOR
