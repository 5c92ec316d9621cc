"""The numpy encoder against published similarities and against the model's description in plain loops."""

import math

import numpy as np
import numpy.typing as npt
import pytest

from search.model import Array, Config, Files, Model, pack
from search.reference import Encoder, compare, erf, rank, same_top
from search.tokens import Tokenizer

Doubles = npt.NDArray[np.float64]


def plain_vector(config: Config, tensors: dict[str, Array], ids: list[int]) -> list[float]:
    """One text by the textbook, in double precision, without packing, batching or padding."""
    t = {name: array.astype(np.float64) for name, array in tensors.items()}

    def norm(x: Doubles, name: str) -> Doubles:
        centred = x - x.mean(axis=1, keepdims=True)
        scale = np.sqrt((centred**2).mean(axis=1, keepdims=True) + config.epsilon)
        return centred / scale * t[f"{name}.weight"] + t[f"{name}.bias"]

    def dense(x: Doubles, name: str) -> Doubles:
        return x @ t[f"{name}.weight"].T + t[f"{name}.bias"]

    x = np.stack(
        [
            t["embeddings.word_embeddings.weight"][token]
            + t["embeddings.position_embeddings.weight"][place]
            + t["embeddings.token_type_embeddings.weight"][0]
            for place, token in enumerate(ids)
        ]
    )
    x = norm(x, "embeddings.LayerNorm")
    size = config.hidden // config.heads
    for layer in range(config.layers):
        at = f"encoder.layer.{layer}."
        q, k, v = (dense(x, f"{at}attention.self.{part}") for part in ("query", "key", "value"))
        heads = []
        for head in range(config.heads):
            part = slice(head * size, (head + 1) * size)
            scores = np.exp(q[:, part] @ k[:, part].T / math.sqrt(size))
            heads.append(scores / scores.sum(axis=1, keepdims=True) @ v[:, part])
        x = norm(x + dense(np.concatenate(heads, axis=1), f"{at}attention.output.dense"), f"{at}attention.output.LayerNorm")
        up = dense(x, f"{at}intermediate.dense")
        up = up * (1 + np.vectorize(math.erf)(up / math.sqrt(2))) / 2
        x = norm(x + dense(up, f"{at}output.dense"), f"{at}output.LayerNorm")
    mean = x.mean(axis=0)
    return list(mean / np.sqrt((mean**2).sum()))


def test_it_agrees_with_the_textbook_on_padded_batches(small: Config, small_tensors: dict[str, Array]) -> None:
    nowhere = Files(*([None] * 5))  # type: ignore[arg-type]
    encoder = Encoder(Model(small, pack(small, small_tensors), nowhere))
    ids = np.array([[1, 2, 3, 4], [4, 2, 0, 0], [3, 3, 3, 0]], np.int32)
    lengths = np.array([4, 2, 3], np.int32)
    got = encoder.encode(ids, lengths)
    want = [plain_vector(small, small_tensors, row[:length].tolist()) for row, length in zip(ids, lengths, strict=True)]
    np.testing.assert_allclose(got, want, atol=5e-6)


def test_published_similarities_of_the_model_come_out(model: Model, tokenizer: Tokenizer) -> None:
    texts = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    vectors = Encoder(model).encode(*tokenizer.encode(texts))
    want = [[1.0, 0.6660, 0.1046], [0.6660, 1.0, 0.1411], [0.1046, 0.1411, 1.0]]
    np.testing.assert_allclose(vectors @ vectors.T, want, atol=2e-4)


def test_a_text_gets_the_same_vector_alone_and_in_a_batch(model: Model, tokenizer: Tokenizer) -> None:
    encoder = Encoder(model)
    together = encoder.encode(*tokenizer.encode(["image viewer", "a much longer text about browsing pictures of many kinds"]))
    alone = encoder.encode(*tokenizer.encode(["image viewer"]))
    assert compare(together[:1], alone).worst_cosine > 1 - 1e-6


def test_erf_is_exact_to_single_precision() -> None:
    x = np.linspace(-6, 6, 24001, dtype=np.float32)
    want = [math.erf(float(value)) for value in x]
    assert np.abs(erf(x) - want).max() < 6e-7


def test_the_worst_row_is_found_and_judged() -> None:
    want = np.eye(3, dtype=np.float32)
    near = want.copy()
    near[1] = [0.01, 1, 0]
    result = compare(near, want)
    assert (result.worst_place, result.holds) == (1, False)
    assert compare(want, want).holds


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0])
def test_a_row_that_is_no_vector_fails(bad: float) -> None:
    want = np.eye(2, dtype=np.float32)
    got = want.copy()
    got[1] = bad
    assert not compare(got, want).holds


def test_ranking_is_best_first_and_stable() -> None:
    vectors = np.array([[0, 1], [1, 0], [1, 0], [0.5, 0]], np.float32)
    assert rank(vectors, vectors[1], 3) == [(1, 1.0), (2, 1.0), (3, 0.5)]


def test_ties_may_swap_and_others_may_not() -> None:
    vectors = np.array([[1.0], [1.0 - 5e-7], [0.9], [0.1]], np.float32)
    query = np.array([1.0], np.float32)
    assert same_top([(1, 1.0), (0, 1.0), (2, 0.9)], vectors, query)
    assert not same_top([(0, 1.0), (2, 0.9), (1, 1.0)], vectors, query)
    assert not same_top([(0, 1.0), (0, 1.0)], vectors, query)
    assert not same_top([(0, 1.0), (1, 1.0), (3, 0.1)], vectors, query)
    assert not same_top([(7, 1.0)], vectors, query)
