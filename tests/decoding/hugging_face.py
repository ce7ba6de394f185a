"""The peer: Hugging Face models with random weights and peaked logits, and ``generate`` over a Python trie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM, T5Config, T5ForConditionalGeneration

from genrec_unlearn_bench.decoding.beam import BeamResult
from genrec_unlearn_bench.decoding.trie import Trie
from tests.decoding.sessions import sids_of

IntArray = NDArray[np.int64]


def tiny_t5(vocabulary: int, *, tied: bool = True, gated: bool = False, seed: int = 0, **shape: int) -> Any:
    """A T5 in eval mode. Untied means v1.1: a head of its own, fed without the d^-0.5 scale."""
    size = {"d_model": 24, "d_kv": 8, "d_ff": 40, "num_layers": 3, "num_heads": 4} | shape
    torch.manual_seed(seed)
    config = T5Config(
        vocab_size=vocabulary,
        feed_forward_proj="gated-gelu" if gated else "relu",
        tie_word_embeddings=tied,
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=None,
        **size,
    )
    model = T5ForConditionalGeneration(config).eval()
    _spread(model)
    if tied:
        model.shared.weight.data.mul_(3.0)
    else:
        model.lm_head.weight = nn.Parameter(torch.randn(vocabulary, size["d_model"]) * 0.5)
    return model


def tiny_qwen(vocabulary: int, *, tied: bool = True, seed: int = 0, spread: float = 0.15, **shape: int) -> Any:
    """A Qwen2 in eval mode, with grouped queries and attention biases that matter."""
    size = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    } | shape
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=vocabulary,
        tie_word_embeddings=tied,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=None,
        initializer_range=spread,
        **size,
    )
    model = Qwen2ForCausalLM(config).eval()
    _spread(model)
    return model


def _spread(model: nn.Module) -> None:
    """Gains and biases away from 1 and 0, so that leaving one out shows."""
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data.add_(0.3 * torch.randn_like(parameter))


def allowed(codes: IntArray, offsets: Sequence[int], prompt: int) -> Callable[[int, Tensor], list[int]]:
    """``prefix_allowed_tokens_fn`` of a dictionary trie; ``prompt`` tokens come before the SID."""
    tree: dict[tuple[int, ...], set[int]] = {}
    for row in (codes + np.asarray(offsets)).tolist():
        for level, token in enumerate(row):
            tree.setdefault(tuple(row[:level]), set()).add(token)
    children = {prefix: sorted(tokens) for prefix, tokens in tree.items()}
    return lambda _, sequence: children.get(tuple(sequence[prompt:].tolist()), [0])


def generate(
    model: Any, ids: Tensor, mask: Tensor, codes: IntArray, offsets: Sequence[int], beam: int
) -> tuple[Tensor, Tensor]:
    """Tokens [B, W, L] and scores [B, W] of Hugging Face's constrained beam search with a config of our own."""
    prompt = 1 if model.config.is_encoder_decoder else ids.shape[1]
    settings = GenerationConfig(
        num_beams=beam,
        num_return_sequences=beam,
        max_new_tokens=codes.shape[1],
        length_penalty=0.0,
        early_stopping=False,
        do_sample=False,
        use_cache=True,
        repetition_penalty=1.0,
        decoder_start_token_id=0,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=None,
        return_dict_in_generate=True,
        output_scores=True,
    )
    found = model.generate(
        inputs=ids,
        attention_mask=mask.long(),
        generation_config=settings,
        prefix_allowed_tokens_fn=allowed(codes, offsets, prompt),
    )
    return found.sequences[:, prompt:].view(len(ids), beam, -1), found.sequences_scores.view(len(ids), beam)


def as_result(trie: Trie, offsets: Sequence[int], tokens: Tensor, scores: Tensor) -> BeamResult:
    """What ``generate`` found, as leaves of a trie."""
    leaf_of = {tuple(sid): leaf for leaf, sid in enumerate(sids_of(trie, np.arange(trie.leaves)).tolist())}
    sids = (tokens - torch.tensor(offsets)).flatten(0, 1).tolist()
    leaves = torch.tensor([leaf_of.get(tuple(sid), -1) for sid in sids]).view_as(scores)
    dead = (scores < -1e8) | (leaves < 0)
    return BeamResult(leaves.masked_fill(dead, -1), scores.masked_fill(dead, float("-inf")))


def assert_same_lists(
    result: BeamResult, trie: Trie, offsets: Sequence[int], tokens: Tensor, scores: Tensor, *, rounding: float = 0.0
) -> None:
    """Same items in the same order with the same scores (1e-4).

    Hugging Face fills a search that runs out of prefixes with duplicates at about -1e9: those count as dead.
    With ``rounding``, items whose scores differ by less may stand in each other's place.
    """
    width = result.leaves.shape[1]
    scores, tokens = scores[:, :width], tokens[:, :width]
    live = result.leaves >= 0
    assert (scores > -1e8).equal(live)
    torch.testing.assert_close(result.log_probs[live], scores[live], atol=1e-4, rtol=0)
    ours = torch.from_numpy(sids_of(trie, result.leaves[live].numpy()) + np.asarray(offsets))
    other = (ours != tokens[live]).any(-1)
    gaps = torch.full_like(result.log_probs, float("inf"))
    steps = result.log_probs.diff(dim=1).abs()
    gaps[:, 1:], gaps[:, :-1] = steps, torch.minimum(gaps[:, :-1], steps)
    gaps[:, 1:-1] = torch.minimum(steps[:, 1:], steps[:, :-1])
    gaps[:, -1] = 0.0
    if rounding == 0.0:
        assert not other.any(), f"{int(other.sum())} of {other.numel()} places differ"
    assert (gaps[live][other] <= rounding).all(), "another item stands where scores are well apart"
