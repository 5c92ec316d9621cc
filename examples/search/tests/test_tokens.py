import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from search.errors import DemoError
from search.model import Model
from search.plan import LengthEstimator
from search.tokens import Tokenizer

FIRST, LAST = 101, 102  # the model's marks around every text


def test_ids_and_lengths_are_those_of_the_model(tokenizer: Tokenizer) -> None:
    ids, lengths = tokenizer.encode(["Rip MUSIC", "a"])
    assert lengths.tolist() == [4, 3]
    assert ids.tolist() == [[FIRST, 10973, 2189, LAST], [FIRST, 1037, LAST, 0]]


def test_a_long_text_is_cut_at_the_models_limit_and_keeps_its_end_mark(tokenizer: Tokenizer) -> None:
    ids, lengths = tokenizer.encode(["word " * 1000])
    assert lengths.tolist() == [256]
    assert ids[0, 0] == FIRST
    assert ids[0, -1] == LAST


def test_an_empty_text_is_its_two_marks(tokenizer: Tokenizer) -> None:
    ids, lengths = tokenizer.encode([""])
    assert ids.tolist() == [[FIRST, LAST]]
    assert lengths.tolist() == [2]


def test_ids_are_written_into_given_memory_and_nothing_else_is_touched(tokenizer: Tokenizer) -> None:
    memory = bytearray(b"\x55" * 4 * 40)
    view = np.frombuffer(memory, np.int32)
    width = tokenizer.encode_into(["Rip MUSIC", "a"], view[:20], view[20:22])
    assert width == 4
    assert view[:8].reshape(2, 4).tolist() == [[FIRST, 10973, 2189, LAST], [FIRST, 1037, LAST, 0]]
    assert view[20:22].tolist() == [4, 3]
    assert bytes(memory[8 * 4 : 20 * 4]) == b"\x55" * 48
    assert bytes(memory[22 * 4 :]) == b"\x55" * 72


def test_memory_that_is_too_small_is_refused_with_sizes(tokenizer: Tokenizer) -> None:
    with pytest.raises(ValueError, match="2 texts of 4 tokens do not fit into 7 ids, 2 lengths"):
        tokenizer.encode_into(["Rip MUSIC", "a"], np.zeros(7, np.int32), np.zeros(2, np.int32))


@pytest.mark.parametrize(
    "text",
    [
        "Perl module for parsing ISO-8601 timestamps",
        "xfce4-cpufreq-plugin",
        "électroencéphalographie à l'hôpital, ÉVALUÉE",
        "日本語の入力",
        "snake_case and C++",
        "🙂 ok",
    ],
)
def test_the_estimate_is_the_tokenisers_count(model: Model, tokenizer: Tokenizer, text: str) -> None:
    estimator = LengthEstimator(model.files.vocabulary, model.config.max_tokens)
    assert estimator.tokens(text) == tokenizer.encode([text])[1][0]


def test_the_tokeniser_is_imported_only_when_a_text_comes() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path; from search.tokens import Tokenizer; "
        "Tokenizer(Path('x'), 256); sys.exit('tokenizers' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(Path(__file__).resolve().parents[2])], check=True)


def test_a_missing_package_is_one_clear_message(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(DemoError, match="pip install tokenizers"):
        Tokenizer(model.files.tokenizer, 256).encode(["a"])
