"""The same encoder in plain numpy, written from the model's description alone: the demo's check and its competitor.

It shares no arithmetic with the chip's kernels. It is written to be fast as numpy goes: query, key and value in one
product, all heads of a batch in one batched product, one buffer per shape, elementwise steps in place on row blocks
that stay in cache. It gets the same length-sorted batches as the chips.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .model import Array, Ints, Model

BLOCK = 32  # rows of one elementwise step
TIE = 1e-6  # scores closer than this may swap places
MIN_COSINE = 0.99999


class Encoder:
    """Embeds batches; keeps its work buffers, so one encoder serves one thread."""

    def __init__(self, model: Model) -> None:
        self._config = model.config
        self._w = model.weights
        self._buffers: dict[str, Array] = {}

    def encode(self, ids: Ints, lengths: Ints) -> Array:
        """Unit vectors [B, H] of the texts ids[B, S], of which the first lengths[B] tokens count."""
        config, w = self._config, self._w
        batch, width = ids.shape
        x = self._buffer("x", batch * width, config.hidden)
        np.take(w.words, ids.reshape(-1), axis=0, out=x)
        x.reshape(batch, width, -1)[...] += w.positions[:width] + w.types[0]
        self._normalise(x, w.embedding_gain, w.embedding_bias)
        dead = np.where(np.arange(width) < lengths[:, None], 0.0, -1e30).astype(np.float32)[:, None, None, :]
        for layer in range(config.layers):
            mixed = self._attention(x, layer, batch, width, dead)
            self._add_normalise(x, mixed, w.attention_out_bias[layer], w.attention_gain[layer], w.attention_norm_bias[layer])
            wide = self._buffer("wide", batch * width, config.ffn)
            np.matmul(x, w.up[layer], out=wide)
            self._gelu(wide, w.up_bias[layer])
            narrow = self._buffer("narrow", batch * width, config.hidden)
            np.matmul(wide, w.down[layer], out=narrow)
            self._add_normalise(x, narrow, w.down_bias[layer], w.output_gain[layer], w.output_norm_bias[layer])
        return self._pool(x.reshape(batch, width, -1), lengths)

    def _attention(self, x: Array, layer: int, batch: int, width: int, dead: Array) -> Array:
        config, w = self._config, self._w
        heads, size = config.heads, config.hidden // config.heads
        qkv = self._buffer("qkv", batch * width, 3 * config.hidden)
        np.matmul(x, w.qkv[layer], out=qkv)
        qkv += w.qkv_bias[layer]
        query, key, value = qkv.reshape(batch, width, 3, heads, size).transpose(2, 0, 3, 1, 4)
        scores = np.matmul(query, key.swapaxes(2, 3))
        scores *= np.float32(size**-0.5)
        scores += dead
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        context = self._buffer("context", batch * width, config.hidden)
        np.matmul(scores, value, out=context.reshape(batch, width, heads, size).swapaxes(1, 2))
        mixed = self._buffer("mixed", batch * width, config.hidden)
        np.matmul(context, w.attention_out[layer], out=mixed)
        return mixed

    def _add_normalise(self, x: Array, addend: Array, bias: Array, gain: Array, norm_bias: Array) -> None:
        for begin in range(0, len(x), BLOCK):
            rows = x[begin : begin + BLOCK]
            rows += addend[begin : begin + BLOCK]
            rows += bias
            self._normalise_block(rows, gain, norm_bias)

    def _normalise(self, x: Array, gain: Array, bias: Array) -> None:
        for begin in range(0, len(x), BLOCK):
            self._normalise_block(x[begin : begin + BLOCK], gain, bias)

    def _normalise_block(self, rows: Array, gain: Array, bias: Array) -> None:
        rows -= rows.mean(axis=1, keepdims=True)
        variance = np.einsum("ij,ij->i", rows, rows)[:, None] / np.float32(rows.shape[1])
        rows *= 1 / np.sqrt(variance + np.float32(self._config.epsilon))
        rows *= gain
        rows += bias

    def _gelu(self, wide: Array, bias: Array) -> None:
        for begin in range(0, len(wide), BLOCK):
            rows = wide[begin : begin + BLOCK]
            rows += bias
            factor = erf(rows * np.float32(2**-0.5))
            factor += 1
            factor *= np.float32(0.5)
            rows *= factor

    def _pool(self, x: Array, lengths: Ints) -> Array:
        alive = (np.arange(x.shape[1]) < lengths[:, None]).astype(np.float32)
        pooled: Array = np.matmul(alive[:, None, :], x)[:, 0, :] / lengths[:, None].astype(np.float32)
        pooled /= np.maximum(np.sqrt(np.einsum("ij,ij->i", pooled, pooled)), np.float32(1e-12))[:, None]
        return pooled

    def _buffer(self, name: str, rows: int, columns: int) -> Array:
        held = self._buffers.get(name)
        if held is None or len(held) < rows:
            held = self._buffers[name] = np.empty((rows, columns), np.float32)
        return held[:rows]


def erf(x: Array) -> Array:
    """The error function to within 5e-7, as a quotient of two polynomials on [-4, 4]; numpy has none.

    >>> float(abs(erf(np.float32([0.5])) - 0.5204999)[0]) < 1e-6
    True
    """
    t = np.clip(x, -4, 4)
    square = t * t
    top = _polynomial(square, _ERF_TOP)
    top *= t
    top /= _polynomial(square, _ERF_BOTTOM)
    return top


def _polynomial(x: Array, coefficients: tuple[float, ...]) -> Array:
    result: Array = np.float32(coefficients[0]) * x
    for coefficient in coefficients[1:-1]:
        result += np.float32(coefficient)
        result *= x
    result += np.float32(coefficients[-1])
    return result


# Fitted to t * top(t²) / bottom(t²) with the smallest largest error on [0, 4]; highest power first.
_ERF_TOP = (1.97468934e-06, 0.00028801823, 0.00400330545, 0.0534664682, 0.196243239, 1.12837898)
_ERF_BOTTOM = (3.7478147e-05, 0.0012162462, 0.0154437868, 0.116473817, 0.507247208, 1.0)


@dataclass(frozen=True)
class Comparison:
    """How far vectors are from the reference."""

    count: int
    worst_cosine: float
    worst_place: int

    @property
    def holds(self) -> bool:
        return self.worst_cosine >= MIN_COSINE


def compare(got: Array, want: Array) -> Comparison:
    """Cosine of every pair of rows, in double precision; a row that is not finite counts as -1."""
    a, b = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosines = (a * b).sum(axis=1) / np.sqrt((a * a).sum(axis=1) * (b * b).sum(axis=1))
    cosines[~np.isfinite(cosines)] = -1.0
    place = int(cosines.argmin())
    return Comparison(len(cosines), float(cosines[place]), place)


def rank(vectors: Array, query: Array, count: int = 5) -> list[tuple[int, float]]:
    """Places and scores of the `count` best rows, best first; equal scores in order of place."""
    scores = vectors @ query
    best = np.argsort(-scores, kind="stable")[:count]
    return [(int(place), float(scores[place])) for place in best]


def same_top(got: list[tuple[int, float]], vectors: Array, query: Array) -> bool:
    """Whether `got` is the reference's top list, where scores within TIE of each other may swap.

    >>> v = np.eye(3, dtype=np.float32)
    >>> same_top([(0, 1.0)], v, v[0]), same_top([(1, 1.0)], v, v[0]), same_top([(2, 0.0)], v[1:], v[0])
    (True, False, False)
    """
    want = rank(vectors, query, len(got))
    places = [place for place, _ in got]
    if len(set(places)) != len(places) or not all(0 <= place < len(vectors) for place in places):
        return False
    scores = (vectors @ query).astype(np.float64)
    return all(abs(scores[place] - score) <= TIE for place, (_, score) in zip(places, want, strict=True))
