from __future__ import annotations

import pytest

from genrec_unlearn_bench.errors import UnknownName
from genrec_unlearn_bench.sids.config import sid_preset


def test_paper_and_official_sizes() -> None:
    paper, official = sid_preset("paper"), sid_preset("official")
    assert (paper.quantiser, paper.levels, paper.codes, paper.dim) == ("rqvae", 3, 256, 64)
    assert (official.quantiser, official.levels, official.codes, official.dim) == ("rqvae", 3, 256, 32)
    assert official.hidden == (512, 256, 128)
    assert official.beta == 0.25


@pytest.mark.parametrize("scale", ["smoke", "small", "paper", "official"])
def test_every_scale_has_the_collision_token_and_plain_nearest_codes(scale: str) -> None:
    config = sid_preset(scale)
    assert config.collision_token
    assert config.resolve_rounds == 0


def test_unknown_scale() -> None:
    with pytest.raises(UnknownName, match="small"):
        sid_preset("smal")
