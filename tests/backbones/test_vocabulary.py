from __future__ import annotations

import numpy as np

from genrec_unlearn_bench.backbones.vocabulary import PAD_TOKEN, SPECIALS, SidVocabulary
from genrec_unlearn_bench.sids.table import SidTable


def test_levels_have_tokens_of_their_own_unless_they_share_them() -> None:
    own, shared = SidVocabulary((4, 4, 4), user_tokens=2), SidVocabulary((4, 4, 4), base=100, shared=True)
    assert own.offsets == (SPECIALS, SPECIALS + 4, SPECIALS + 8)
    assert (own.user_offset, own.size) == (SPECIALS + 12, SPECIALS + 14)
    assert shared.offsets == (100, 100, 100)
    assert (shared.user_offset, shared.size) == (104, 104)
    table = SidTable(np.array([[1, 1, 3], [2, 3, -1]]), (4, 4, 4), 3)
    assert own.tokens(table).tolist() == [[4, 8, 14], [5, 10, PAD_TOKEN]]
    assert shared.tokens(table).tolist() == [[101, 101, 103], [102, 103, PAD_TOKEN]]
