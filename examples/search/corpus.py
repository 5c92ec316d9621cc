"""What the demo searches: real package descriptions of this machine, or the lines of a file.

Three sources, tried in this order: `--source FILE` (one item a line), the package lists of the machine
(`apt-cache dumpavail`; whole descriptions or, on slim systems, synopses only), the dpkg status file (what is
installed). `Corpus.origin` says in words which one it was, so that the demo never hides a fallback.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from .errors import DemoError

T = TypeVar("T")

DPKG_STATUS = Path("/var/lib/dpkg/status")
DEFAULT_COUNT = 2000

# Sections in which people look for a program rather than for a library, a language pack or a debug symbol.
_SECTIONS = (
    "comm editors education electronics embedded games gis gnome gnu-r graphics hamradio httpd kde mail math misc "
    "net news science sound text utils video web x11 xfce"
)
SEARCHED_SECTIONS = frozenset(_SECTIONS.split())


@dataclass(frozen=True)
class Item:
    """One thing that can be found: `name` and `summary` are shown, `text` is what the encoder reads."""

    name: str
    summary: str
    text: str


@dataclass(frozen=True)
class Corpus:
    items: list[Item]
    origin: str


@dataclass(frozen=True)
class Package:
    name: str
    section: str
    synopsis: str
    body: str

    def item(self) -> Item:
        text = f"{self.synopsis}. {self.body}" if self.body else self.synopsis
        return Item(self.name, self.synopsis, text)


def parse_count(text: str) -> int | None:
    """`all` is None; anything else must be a positive whole number."""
    if text == "all":
        return None
    try:
        count = int(text)
    except ValueError:
        raise DemoError(f"--count {text!r}: give a whole number of at least 1, or 'all'") from None
    if count < 1:
        raise DemoError(f"--count {count}: nothing to search; give a number of at least 1, or 'all'")
    return count


def load(count: int | None = DEFAULT_COUNT, source: Path | None = None) -> Corpus:
    """The items to search; `count` None means all of them."""
    if source is not None:
        return from_file(source, count)
    if shutil.which("apt-cache") is not None:
        packages = list(unique(parse_stanzas(dumpavail())))
        if packages:
            return from_packages(packages, count)
    return from_status(DPKG_STATUS, count)


def from_file(source: Path, count: int | None) -> Corpus:
    lines = [line.strip() for line in read_text(source).splitlines()]
    items = [Item(f"line {number}", line, line) for number, line in enumerate(lines, start=1) if line]
    if not items:
        raise DemoError(f"{source}: no descriptions in it; it needs one item a line")
    chosen = spread(items, count)
    return Corpus(chosen, f"{len(chosen)} of {len(items)} lines of {source}")


def from_packages(packages: list[Package], count: int | None) -> Corpus:
    """Evenly over the searched sections; a larger count than those hold takes every section."""
    searched = [package for package in packages if package.section.rpartition("/")[2] in SEARCHED_SECTIONS]
    if count is None or count > len(searched):
        pool, which = packages, "packages of all sections"
    else:
        pool, which = searched, "packages of the sections that people search"
    chosen = [package.item() for package in spread(pool, count)]
    whole = sum(1 for package in pool if package.body)
    kind = "whole descriptions" if 2 * whole > len(pool) else "mostly synopses"
    return Corpus(chosen, f"{len(chosen)} of {len(pool)} {which} in this machine's package lists ({kind})")


def from_status(status: Path, count: int | None) -> Corpus:
    packages = list(unique(parse_stanzas(read_text(status).splitlines())))
    if not packages:
        raise DemoError(
            f"no descriptions: neither `apt-cache dumpavail` nor {status} lists a package; "
            "run `apt-get update`, or name a text file with --source"
        )
    # The status file is short and its descriptions are whole, so an even spread over it stays meaningful.
    chosen = [package.item() for package in spread(packages, count)]
    return Corpus(chosen, f"no package lists here: {len(chosen)} of {len(packages)} installed packages in {status}")


def dumpavail() -> Iterator[str]:
    """Lines of `apt-cache dumpavail`; nothing where it fails, as on a system without lists."""
    command = ["apt-cache", "dumpavail"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, encoding="utf-8", errors="replace"
    ) as process:
        assert process.stdout is not None
        yield from process.stdout


def parse_stanzas(lines: Iterable[str]) -> Iterator[Package]:
    """Packages of a Debian control file; stanzas without a name or a description are left out.

    >>> list(parse_stanzas(["Package: a", "Section: sound", "Description: plays", " more", " .", " words"]))
    [Package(name='a', section='sound', synopsis='plays', body='more words')]
    """
    fields: dict[str, str] = {}
    key = ""
    for raw in lines:
        line = raw.rstrip("\n")
        if not line.strip():
            yield from package_of(fields)
            fields, key = {}, ""
        elif line[0] in " \t":
            if key == "description" and line.strip() != ".":
                fields[key] += "\n" + line.strip()
        else:
            key, _, value = line.partition(":")
            key = key.lower()
            if key.startswith("description-") and key != "description-md5":
                key = "description"
            if key in ("package", "section", "description"):
                fields[key] = value.strip()
    yield from package_of(fields)


def package_of(fields: dict[str, str]) -> Iterator[Package]:
    name = fields.get("package", "")
    synopsis, _, body = fields.get("description", "").partition("\n")
    if name and synopsis:
        yield Package(name, fields.get("section", ""), synopsis, " ".join(body.split()))


def unique(packages: Iterable[Package]) -> Iterator[Package]:
    """The first stanza of each name: lists of several releases repeat packages."""
    seen: set[str] = set()
    for package in packages:
        if package.name not in seen:
            seen.add(package.name)
            yield package


def spread(pool: list[T], count: int | None) -> list[T]:
    """`count` members of `pool`, evenly spaced and in order; all of them where it has no more.

    >>> spread(list(range(10)), 4)
    [0, 2, 5, 7]
    """
    if count is None or count >= len(pool):
        return list(pool)
    return [pool[index * len(pool) // count] for index in range(count)]


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise DemoError(f"cannot read {path}: {error.strerror or error}") from None
