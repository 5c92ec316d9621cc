"""How many texts go together, in which order, and to which chip: decided before anything runs.

Texts are sorted by their estimated number of tokens, longest first, and cut into batches of bounded size, so that a
batch pads little and its cost is known. The estimate looks words up in the model's vocabulary; it orders and balances,
nothing else: the true lengths are written by the tokenisers and read by the kernels.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

IDEOGRAPH = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # each is a word of its own
WORD = re.compile(rf"[{IDEOGRAPH}]|[^\W_{IDEOGRAPH}]+|[^\w\s]|_")
BATCH_TOKENS = 512
BATCH_TEXTS = 64
END_MARKS = 2  # every text gets a first and a last token


@dataclass(frozen=True)
class Batch:
    """Texts `rows[0], rows[1], …` of the table; their vectors go to places `first`, `first + 1`, … in sorted order."""

    index: int
    first: int
    rows: tuple[int, ...]
    tokens: int  # estimated, padding included
    chip: int


@dataclass(frozen=True)
class Plan:
    batches: tuple[Batch, ...]
    order: tuple[int, ...]  # order[place] = index of the text
    max_tokens: int

    @property
    def count(self) -> int:
        return len(self.order)


class LengthEstimator:
    """Greedy longest match in the vocabulary, on lower-cased words: close to the model's tokens, and cheap."""

    def __init__(self, vocabulary: Path, max_tokens: int) -> None:
        self._pieces = frozenset(vocabulary.read_text(encoding="utf-8").splitlines())
        self._max_tokens = max_tokens
        self._known: dict[str, int] = {}

    def tokens(self, text: str) -> int:
        plain = text.lower() if text.isascii() else without_accents(text.lower())
        return min(self._max_tokens, END_MARKS + sum(map(self._word, WORD.findall(plain))))

    def _word(self, word: str) -> int:
        if word in self._pieces:
            return 1
        count = self._known.get(word)
        if count is None:
            count = self._known[word] = self._split(word)
        return count

    def _split(self, word: str) -> int:
        count, begin, prefix = 0, 0, ""
        while begin < len(word):
            end = len(word)
            while end > begin and prefix + word[begin:end] not in self._pieces:
                end -= 1
            if end == begin:
                return 1  # a word with an unknown part becomes one unknown token
            count, begin, prefix = count + 1, end, "##"
        return count


def without_accents(text: str) -> str:
    """The text as the model's tokeniser sees it.

    >>> without_accents("naïve café")
    'naive cafe'
    """
    return "".join(letter for letter in unicodedata.normalize("NFD", text) if unicodedata.category(letter) != "Mn")


def make_plan(
    lengths: Sequence[int],
    *,
    chips: int,
    max_tokens: int,
    first_text: int = 0,
    batch_tokens: int = BATCH_TOKENS,
    batch_texts: int = BATCH_TEXTS,
) -> Plan:
    """A plan for texts `first_text`, `first_text + 1`, … of the table with the estimated `lengths`.

    >>> plan = make_plan([3, 9, 4], chips=2, max_tokens=256, batch_tokens=9)
    >>> [(batch.rows, batch.chip) for batch in plan.batches]
    [((1,), 0), ((2, 0), 1)]
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    load = [0] * chips
    batches: list[Batch] = []
    place = 0
    while place < len(order):
        widest = max(1, lengths[order[place]])
        size = min(max(1, batch_tokens // widest), batch_texts, len(order) - place)
        chip = load.index(min(load))
        load[chip] += size * widest
        rows = tuple(first_text + index for index in order[place : place + size])
        batches.append(Batch(len(batches), place, rows, size * widest, chip))
        place += size
    return Plan(tuple(batches), tuple(first_text + index for index in order), max_tokens)
