"""Makes the demo importable as the package `search`, and loads the model once."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

if TYPE_CHECKING:
    from search.model import Array, Config, Model
    from search.tokens import Tokenizer


@pytest.fixture(scope="session")
def model() -> "Model":
    from search import model as model_module
    from search.errors import DemoError

    try:
        return model_module.load()
    except DemoError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def tokenizer(model: "Model") -> "Tokenizer":
    pytest.importorskip("tokenizers")
    from search.tokens import Tokenizer

    return Tokenizer(model.files.tokenizer, model.config.max_tokens)


@pytest.fixture
def small() -> "Config":
    """A model of the same kind, small enough for plain loops."""
    from search.model import Config

    return Config(layers=2, hidden=4, heads=2, ffn=6, vocabulary=5, positions=8, epsilon=1e-12, max_tokens=8)


@pytest.fixture
def small_tensors(small: "Config") -> "dict[str, Array]":
    from search.model import expected_shapes

    source = np.random.default_rng(3)
    return {name: source.standard_normal(shape, np.float32) for name, shape in expected_shapes(small).items()}
