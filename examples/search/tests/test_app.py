"""Everything of the command line that ends before the runtime starts."""

from pathlib import Path

import pytest

from search import app, corpus
from search.app import main


def line_of(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> str:
    """The one line that a refused command prints."""
    assert main(arguments) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("search: ")
    return lines[0]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--count", "0"], "at least 1, or 'all'"),
        (["--count", "few"], "whole number"),
        (["--chips", "0"], "--chips 0: give a number from 1 to 64"),
        (["--source", "/no/such/file"], "cannot read /no/such/file: No such file or directory"),
        (["--trace", "/no/such/folder/trace.json"], "the folder /no/such/folder does not exist"),
        (["--query", " "], "nothing to look for"),
    ],
)
def test_a_mistake_is_one_line_and_status_1(capsys: pytest.CaptureFixture[str], arguments: list[str], text: str) -> None:
    assert text in line_of(capsys, arguments)


def test_an_empty_source_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source = tmp_path / "empty"
    source.touch()
    assert "no descriptions" in line_of(capsys, ["--source", str(source)])


def test_a_missing_package_is_one_line_with_the_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.importlib.util, "find_spec", lambda name: None)
    assert "pip install numpy safetensors tokenizers" in line_of(capsys, [])


def test_an_unknown_platform_is_a_usage_error() -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["--platform", "abacus"])
    assert exit_info.value.code == 2


def test_ctrl_c_is_status_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(corpus, "load", interrupted)
    assert main([]) == 130
    assert capsys.readouterr().err == "search: stopped\n"


def test_progress_prints_a_line_per_quarter_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    progress = app.Progress()
    for done in range(9):
        progress(done, 8)
    progress.end()
    assert capsys.readouterr().out.splitlines() == [f"  {done} of 8 batches" for done in (2, 4, 6, 8)]
