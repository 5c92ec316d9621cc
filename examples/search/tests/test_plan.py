import random
from pathlib import Path

import pytest

from search.plan import LengthEstimator, make_plan


@pytest.fixture
def estimator(tmp_path: Path) -> LengthEstimator:
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(["play", "music", "##er", "##s", "-", "[UNK]"]), encoding="utf-8")
    return LengthEstimator(vocabulary, 10)


def test_known_words_count_once_and_others_by_their_longest_pieces(estimator: LengthEstimator) -> None:
    assert estimator.tokens("Play music") == 4
    assert estimator.tokens("players") == 5
    assert estimator.tokens("music-play") == 5


def test_a_word_without_pieces_is_one_unknown_token(estimator: LengthEstimator) -> None:
    assert estimator.tokens("playq") == 3


def test_an_estimate_never_exceeds_the_limit(estimator: LengthEstimator) -> None:
    assert estimator.tokens("play " * 100) == 10


def test_every_text_has_exactly_one_place_and_batches_are_bounded() -> None:
    source = random.Random(7)
    lengths = [source.randint(2, 256) for _ in range(500)]
    plan = make_plan(lengths, chips=3, max_tokens=256, batch_tokens=512, batch_texts=20)
    assert sorted(plan.order) == list(range(500))
    assert [row for batch in plan.batches for row in batch.rows] == list(plan.order)
    assert [batch.first for batch in plan.batches] == [
        sum(len(other.rows) for other in plan.batches[:i]) for i in range(len(plan.batches))
    ]
    for batch in plan.batches:
        assert 1 <= len(batch.rows) <= 20
        assert batch.tokens == len(batch.rows) * max(lengths[row] for row in batch.rows) <= 512


def test_batches_hold_texts_of_falling_length() -> None:
    plan = make_plan([5, 9, 7, 9], chips=1, max_tokens=256)
    assert plan.order == (1, 3, 2, 0)


def test_chips_get_nearly_the_same_work() -> None:
    plan = make_plan([20] * 1000, chips=4, max_tokens=256)
    work = [sum(batch.tokens for batch in plan.batches if batch.chip == chip) for chip in range(4)]
    assert max(work) - min(work) <= 512


def test_a_text_longer_than_a_batch_gets_a_batch_of_its_own() -> None:
    plan = make_plan([600, 600], chips=1, max_tokens=600, batch_tokens=512)
    assert [batch.rows for batch in plan.batches] == [(0,), (1,)]


def test_a_later_part_of_the_table_keeps_its_numbers() -> None:
    plan = make_plan([3, 4], chips=1, max_tokens=256, first_text=100)
    assert plan.order == (101, 100)
