"""Tiny random text models with a tokenizer, as folders that Hugging Face would write."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, T5Config, T5ForConditionalGeneration

WORDS = (
    "Below is an instruction that describes a task, paired with an input that provides further context.",
    "The user has interacted with items group 1 member 2, group 7 member 0 in chronological order: ###\n\n",
)


def text_tokenizer(texts: Iterable[str] = WORDS, *, size: int = 400) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer, so that it can write any text, with <pad>, </s> and <unk>."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<pad>", "</s>", "<unk>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", model_max_length=512
    )


def qwen_folder(folder: Path, *, tied: bool = True, seed: int = 0, rows: int | None = None, **shape: int) -> Path:
    """A Qwen2 checkpoint; ``rows`` gives its embedding another size than the tokenizer's."""
    tokenizer = text_tokenizer()
    size: dict[str, Any] = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    } | shape
    torch.manual_seed(seed)
    config = Qwen2Config(vocab_size=rows or len(tokenizer) + 5, tie_word_embeddings=tied, initializer_range=0.1, **size)
    Qwen2ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def t5_folder(folder: Path, *, seed: int = 0, rows: int | None = None, **shape: int) -> Path:
    """A T5 v1.0 checkpoint (tied embeddings, ReLU)."""
    tokenizer = text_tokenizer()
    size: dict[str, Any] = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4} | shape
    torch.manual_seed(seed)
    config = T5Config(
        vocab_size=rows or len(tokenizer) + 5, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0, **size
    )
    T5ForConditionalGeneration(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
