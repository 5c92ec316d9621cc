import stat
from pathlib import Path

import pytest

from search import corpus
from search.corpus import Package
from search.errors import DemoError

LISTS = """\
Package: player
Section: sound
Description: plays music
 Plays files and
 streams.
 .
 Small.
Description-md5: 00

Package: libplay
Section: contrib/libs
Description-en: library behind it

Package: nameless-synopsis
Section: games
Description:

Package: player
Section: sound
Description: an older one
"""


def stanzas(text: str) -> list[Package]:
    return list(corpus.unique(corpus.parse_stanzas(text.splitlines(keepends=True))))


def a_pool(count: int, section: str = "games") -> list[Package]:
    return [Package(f"{section}{i}", section, f"number {i}", "") for i in range(count)]


def test_stanzas_keep_synopsis_and_body_and_drop_repeats_and_empty_ones() -> None:
    assert stanzas(LISTS) == [
        Package("player", "sound", "plays music", "Plays files and streams. Small."),
        Package("libplay", "contrib/libs", "library behind it", ""),
    ]


def test_the_text_of_a_package_is_synopsis_then_body() -> None:
    player, library = stanzas(LISTS)
    assert player.item().text == "plays music. Plays files and streams. Small."
    assert library.item().text == "library behind it"


def test_a_small_count_takes_only_searched_sections_evenly() -> None:
    found = corpus.from_packages([*a_pool(100), *a_pool(50, "libs")], 4)
    assert [item.name for item in found.items] == ["games0", "games25", "games50", "games75"]
    assert found.origin.startswith("4 of 100 packages of the sections that people search")


def test_a_count_beyond_the_searched_sections_takes_every_section() -> None:
    found = corpus.from_packages([*a_pool(10), *a_pool(10, "contrib/libs")], 12)
    assert len(found.items) == 12
    assert "of 20 packages of all sections" in found.origin


def test_all_takes_everything() -> None:
    assert len(corpus.from_packages([*a_pool(10), *a_pool(10, "libs")], None).items) == 20


def test_a_file_gives_one_item_a_line_and_skips_blank_ones(tmp_path: Path) -> None:
    source = tmp_path / "items.txt"
    source.write_text("first\n\n  second \n", encoding="utf-8")
    found = corpus.load(None, source)
    assert [(item.name, item.text) for item in found.items] == [("line 1", "first"), ("line 3", "second")]
    assert found.origin == f"2 of 2 lines of {source}"


def test_bytes_that_are_no_text_do_not_stop_a_file(tmp_path: Path) -> None:
    source = tmp_path / "items.txt"
    source.write_bytes(b"caf\xe9\n")
    assert corpus.load(None, source).items[0].text == "caf\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_a_file_without_items_is_one_clear_message(tmp_path: Path, content: str) -> None:
    source = tmp_path / "empty.txt"
    source.write_text(content)
    with pytest.raises(DemoError, match=r"empty\.txt: no descriptions in it; it needs one item a line"):
        corpus.load(10, source)


def test_an_unreadable_file_is_one_clear_message(tmp_path: Path) -> None:
    with pytest.raises(DemoError, match=r"cannot read .*missing: No such file or directory"):
        corpus.load(10, tmp_path / "missing")
    with pytest.raises(DemoError, match=r"cannot read .*: Is a directory"):
        corpus.load(10, tmp_path)


def test_without_lists_the_status_file_is_taken_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tmp_path / "apt-cache"
    command.write_text("#!/bin/sh\nexit 100\n")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))
    status = tmp_path / "status"
    status.write_text(LISTS)
    monkeypatch.setattr(corpus, "DPKG_STATUS", status)
    found = corpus.load(None)
    assert [item.name for item in found.items] == ["player", "libplay"]
    assert found.origin == f"no package lists here: 2 of 2 installed packages in {status}"


def test_no_packages_anywhere_is_one_clear_message(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text("")
    with pytest.raises(DemoError, match=r"apt-get update.*--source"):
        corpus.from_status(status, 5)


@pytest.mark.parametrize(("text", "count"), [("all", None), ("1", 1), ("2000", 2000)])
def test_a_count_is_a_number_or_all(text: str, count: int | None) -> None:
    assert corpus.parse_count(text) == count


@pytest.mark.parametrize("text", ["0", "-3", "many", "1.5", ""])
def test_any_other_count_is_one_clear_message(text: str) -> None:
    with pytest.raises(DemoError, match="--count"):
        corpus.parse_count(text)
