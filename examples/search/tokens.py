"""Texts to token ids, in the process that needs them: `tokenizers` is imported at the first use, in the child.

A batch of B texts becomes ids[B, S], row after row without gaps, and lengths[B]; S is the longest of the B lengths and
never more than the model's limit. Both are written into memory that the caller owns (shared with the chips), so the
only copy is the one out of the tokeniser. Ids past a text's length are 0, the model's padding token.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .errors import DemoError
from .model import Ints

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend


class Tokenizer:
    """The model's own tokeniser file; loading it is put off until the first text, so that it happens after a fork."""

    def __init__(self, path: Path, max_tokens: int) -> None:
        self._path = path
        self._max_tokens = max_tokens
        self._backend: Backend | None = None

    def encode_into(self, texts: Sequence[str], ids: Ints, lengths: Ints) -> int:
        """Fill `lengths[:B]` and the first B * S elements of the flat `ids`; returns S."""
        encoded = [encoding.ids for encoding in self._loaded().encode_batch(list(texts))]
        width = max(len(row) for row in encoded)
        if ids.ndim != 1 or ids.size < len(encoded) * width or lengths.size < len(encoded):
            raise ValueError(f"{len(encoded)} texts of {width} tokens do not fit into {ids.size} ids, {lengths.size} lengths")
        table = ids[: len(encoded) * width].reshape(len(encoded), width)
        table.fill(0)
        for row, tokens in enumerate(encoded):
            table[row, : len(tokens)] = tokens
            lengths[row] = len(tokens)
        return width

    def encode(self, texts: Sequence[str]) -> tuple[Ints, Ints]:
        """ids[B, S] and lengths[B] in memory of their own: for the reference and for tests."""
        ids = np.zeros(len(texts) * self._max_tokens, np.int32)
        lengths = np.zeros(len(texts), np.int32)
        width = self.encode_into(texts, ids, lengths)
        return ids[: len(texts) * width].reshape(len(texts), width).copy(), lengths

    def _loaded(self) -> Backend:
        if self._backend is None:
            # One thread: the children of the worker already share the machine among them.
            os.environ["TOKENIZERS_PARALLELISM"] = "false"
            try:
                from tokenizers import Tokenizer as Backend
            except ImportError:
                raise DemoError(
                    "the package tokenizers is missing; install it with: python3 -m pip install tokenizers"
                ) from None
            backend = Backend.from_file(str(self._path))
            backend.no_padding()
            backend.enable_truncation(self._max_tokens)
            self._backend = backend
        return self._backend
