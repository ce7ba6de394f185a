from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

from genrec_unlearn_bench.backbones import load_backbone
from genrec_unlearn_bench.backbones.backbone import TrainingData
from genrec_unlearn_bench.backbones.config import Scale, T5Shape, TrainingConfig
from genrec_unlearn_bench.backbones.early_stopping import validation_ndcg
from genrec_unlearn_bench.backbones.p5sid.backbone import P5Config, P5Sid, P5SidConfig
from genrec_unlearn_bench.backbones.p5sid.prompts import PROMPT_WORDS, PROMPTS, WordTokenizer
from genrec_unlearn_bench.backbones.p5sid.recommender import P5Recommender
from genrec_unlearn_bench.backbones.recommender import Capability
from genrec_unlearn_bench.data.examples import Histories
from genrec_unlearn_bench.errors import DataMissing
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.table import SidTable
from tests.planted import catalogue, examples, features, sequences, sids

SHAPE = T5Shape(d_model=32, d_kv=8, d_ff=64, layers=1, heads=4, dropout=0.0, history_limit=3)
TRAINING = TrainingConfig(lr=1e-2, batch_size=128, epochs=12, warmup_steps=10, evaluations=2)
SIDS = {
    "rqvae": P5SidConfig(levels=2, codes=8, dim=8, resolve_rounds=0),
    "sequential": P5SidConfig(indexer="sequential", start=95),
    "collaborative": P5SidConfig(indexer="collaborative", clusters=4, leaf_size=10),
}


def data(seed: int = 1) -> TrainingData:
    known = np.ones(64, dtype=np.bool_)
    train, valid = examples(sequences(120, 7, seed)), examples(sequences(40, 7, seed + 1))
    return TrainingData(train, valid, catalogue(), features(sids()).plain, known)


def tokenised(kind: str, of: TrainingData) -> SidTable:
    return P5Sid.tokenise(SIDS[kind], of, seed=0, device="cpu", progress=Progress())


def fitted(config: P5Config, of: TrainingData, table: SidTable, progress: Progress | None = None) -> P5Recommender:
    return P5Sid.fit(config, data=of, sids=table, seed=0, device="cpu", progress=progress or Progress())


@pytest.mark.slow
@pytest.mark.parametrize("kind", SIDS)
def test_every_indexer_learns_the_walks(kind: str) -> None:
    of = data()
    table = tokenised(kind, of)
    model = fitted(P5Config(shape=SHAPE, training=TRAINING), of, table)
    assert validation_ndcg(model, of.valid) > 0.2, "popularity reaches less than 0.1"
    config = P5Config(shape=SHAPE)
    assert model.capabilities == P5Sid.capabilities(config, SIDS[kind])
    codebooks = Capability.HAS_CODEBOOKS in model.capabilities
    assert codebooks == (kind == "rqvae")
    assert P5Sid.reads_interactions(SIDS[kind]) == (kind != "rqvae")


def test_training_is_repeatable_and_draws_all_prompts() -> None:
    of = data()
    table = tokenised("sequential", of)
    short = P5Config(shape=SHAPE, training=TRAINING.model_copy(update={"epochs": 1, "max_steps": 4}))
    one, two = (fitted(short, of, table) for _ in range(2))
    for a, b in zip(one.module.parameters(), two.module.parameters(), strict=True):
        assert torch.equal(a, b)
    words = WordTokenizer()
    start = P5Recommender.fresh(one.shape, table, seed=0)
    moved = (one.model.shared.weight - start.model.shared.weight).abs().sum(1) > 0
    assert all(moved[words.word(word)[0]] for word in PROMPT_WORDS)


@pytest.mark.parametrize("kind", ["sequential", "collaborative"])
def test_valid_rows_and_later_events_move_neither_ids_nor_users(kind: str) -> None:
    of = data()
    other = replace(of, valid=examples(sequences(40, 7, 99)))
    np.testing.assert_array_equal(tokenised(kind, of).codes, tokenised(kind, other).codes)
    # Events beyond the train rows' slices are valid and test interactions.
    train = of.train
    cut = train.subset(train.ends - train.starts < 5)
    read = np.zeros(len(train.events), dtype=np.bool_)
    for start, end in zip(cut.starts, cut.ends, strict=True):
        read[start:end] = True
    changed = np.where(read, train.events, (train.events + 7) % 64)
    spoilt = replace(cut, events=changed)
    one, two = (replace(of, train=part) for part in (cut, spoilt))
    table = tokenised(kind, one)
    np.testing.assert_array_equal(table.codes, tokenised(kind, two).codes)
    nothing = P5Config(shape=SHAPE, training=TRAINING.model_copy(update={"epochs": 1, "max_steps": 1}))
    a, b = fitted(nothing, one, table), fitted(nothing, two, table)
    assert torch.equal(a.model.user_rows, b.model.user_rows)


def test_users_are_numbered_by_their_first_train_row_and_others_share_a_word() -> None:
    of = data()
    train = of.train.subset(np.flatnonzero(of.train.users >= 40)[::-1])
    config = P5Config(shape=SHAPE, training=TRAINING.model_copy(update={"epochs": 1, "max_steps": 1}))
    model = fitted(config, replace(of, train=train), tokenised("rqvae", of))
    rows = model.model.user_rows
    assert rows[:40].tolist() == [0] * 40
    # The walks' times rise with the user, whatever the order of the rows.
    assert rows[40:].tolist() == list(range(1, 81))
    histories = Histories.of([[1, 2]] * 3, users=[3, -1, 5000])
    logits = model.forward(histories, np.array([4, 4, 4])).logits
    torch.testing.assert_close(logits[0], logits[1])
    torch.testing.assert_close(logits[0], logits[2])


def test_results_say_what_it_is() -> None:
    assert load_backbone("p5sid") is P5Sid
    scratch, text = P5Config(), P5Config(checkpoint="t5-small")
    assert P5Sid.label(scratch, SIDS["rqvae"]) == "p5sid (from scratch)"
    assert P5Sid.label(text, SIDS["rqvae"]) == "p5sid"
    assert P5Sid.label(text, SIDS["collaborative"]) == "p5sid (collaborative)"
    for scale in Scale:
        config, tokens = P5Sid.presets[scale], P5Sid.sid_presets[scale]
        assert (config.checkpoint is None) == (scale in (Scale.SMOKE, Scale.SMALL))
        assert tokens.indexer == "rqvae"
    assert len(PROMPTS) >= 10
    assert len(set(PROMPTS)) == len(PROMPTS)


def test_configurations_that_make_no_sense_are_refused() -> None:
    for fields in ({"leaf_size": 3, "clusters": 4}, {"clusters": 20, "cluster_tokens": 20}, {"indexer": "random"}):
        with pytest.raises(ValidationError):
            P5SidConfig.model_validate(fields)
    with pytest.raises(ValidationError, match="user_tokens"):
        P5Config(shape=T5Shape(user_tokens=3))


def t5(folder: Path) -> Path:
    """A tiny T5 with a SentencePiece-like tokenizer: words begin with a mark, numbers fall into pieces."""
    pieces = ["<pad>", "</s>", "<unk>", "▁", "▁item", "▁user", "_", *"abcdefghijklmnopqrstuvwxyz.,;:?", *"0123456789"]
    pieces += ["10", "100", "▁next", "▁what", "▁10"]
    scores = [(piece, 0.0 if place < 3 else -3.0 / len(piece)) for place, piece in enumerate(pieces)]
    tokenizer = Tokenizer(models.Unigram(scores, unk_id=2))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")
    torch.manual_seed(0)
    size = {"d_model": 24, "d_kv": 8, "d_ff": 40, "num_layers": 2, "num_heads": 3}
    model = T5ForConditionalGeneration(
        T5Config(vocab_size=64, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0, **size)
    )
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return t5(tmp_path_factory.mktemp("t5"))


def test_a_pretrained_model_keeps_its_words_and_gets_new_numbers_and_sids(checkpoint: Path, tmp_path: Path) -> None:
    of = data()
    config = P5SidConfig(indexer="sequential", start=1001, number_tokenizer=str(checkpoint))
    table = P5Sid.tokenise(config, of, seed=0, device="cpu", progress=Progress())
    # The tokenizer's own pieces, not ours: ten digits, 10 and 100; 1001 is 100-1 and 1011 is 10-1-1.
    assert table.tree is not None
    assert (table.tree.content, table.quantised_levels) == (12, 3)
    training = TRAINING.model_copy(update={"epochs": 1, "max_steps": 1, "lr": 1e-9, "weight_decay": 0.0})
    model = fitted(P5Config(checkpoint=str(checkpoint), shape=SHAPE, training=training), of, table)
    plain = T5ForConditionalGeneration.from_pretrained(checkpoint)
    assert (model.shape.d_model, model.shape.layers, model.shape.heads, model.history_limit) == (24, 2, 3, 3)
    assert model.vocabulary.base == 64
    old, new = plain.get_input_embeddings().weight, model.model.get_input_embeddings().weight
    same = torch.isclose(old, new[:64], atol=1e-6).all(1)
    names = PreTrainedTokenizerFast.from_pretrained(checkpoint).get_vocab()
    numbers = {place for name, place in names.items() if name.lstrip("▁").isdecimal()}
    assert {place for place in range(64) if not same[place]} == numbers
    assert new.shape[0] == 64 + table.level_sizes[0]
    kept = dict(plain.named_parameters())
    for name, parameter in model.model.named_parameters():
        if name in kept and kept[name].shape == parameter.shape:
            torch.testing.assert_close(parameter, kept[name], atol=1e-6, rtol=0)
    # It loads again without the checkpoint, tokenizer included.
    model.save(tmp_path / "m")
    again = P5Recommender.load(tmp_path / "m")
    histories = of.valid.histories(3).rows(np.arange(10))
    one, two = model.recommend(histories, 5, beam=20), again.recommend(histories, 5, beam=20)
    np.testing.assert_array_equal(one.items, two.items)
    np.testing.assert_array_equal(one.log_probs, two.log_probs)


def test_the_tokenizers_own_pieces_make_the_numbers(checkpoint: Path) -> None:
    from genrec_unlearn_bench.backbones.p5sid.prompts import SubwordTokenizer

    words = SubwordTokenizer(PreTrainedTokenizerFast.from_pretrained(checkpoint), 64)
    assert words.number_pieces(1001) == ["100", "1"]
    assert words.number_pieces(1010) == ["10", "10"]
    sentence = "after , what next ?"
    assert [one for word in sentence.split() for one in words.word(word)] == words.tokenizer.encode(
        sentence, add_special_tokens=False
    )


def test_a_checkpoint_that_is_not_there_is_an_error_that_says_so() -> None:
    of = data()
    with pytest.raises(DataMissing):
        fitted(P5Config(checkpoint="./no/such/folder", shape=SHAPE), of, tokenised("rqvae", of))
