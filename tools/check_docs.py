"""Check the pages: each is listed in docs/README.md, links lead somewhere, every library has a README."""

from __future__ import annotations

import re
from pathlib import Path

from checkout import ROOT, files, name, report

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^(```|~~~).*?^\1", re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Return the anchors that the headings of a page make."""
    made = set()
    for heading in re.findall(r"^#+ +(.+)$", CODE.sub("", page.read_text()), re.MULTILINE):
        plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        made.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return made


def check_links(page: Path) -> list[str]:
    found = []
    for target in LINK.findall(CODE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        place, _, anchor = target.partition("#")
        aim = (page.parent / place).resolve() if place else page
        if not aim.exists():
            found.append(f"{name(page)}: the link {target} leads nowhere")
        elif anchor and aim.suffix == ".md" and anchor not in anchors(aim):
            found.append(f"{name(page)}: no heading for the anchor of {target}")
    return found


def main() -> None:
    pages = list(files((".",), (".md",)))
    findings = [finding for page in pages for finding in check_links(page)]
    index = ROOT / "docs" / "README.md"
    if not index.exists():
        report("check_docs", ["docs/README.md is missing"], f"{len(pages)} pages")
    listed = {(index.parent / link.partition("#")[0]).resolve() for link in LINK.findall(index.read_text())}
    for page in files(("docs",), (".md",)):
        if page != index and page not in listed:
            findings.append(f"{name(page)}: not listed in docs/README.md")
    for folder in sorted((ROOT / "src").iterdir()):
        if folder.is_dir() and not (folder / "README.md").exists():
            findings.append(f"src/{folder.name}: has no README.md")
    report("check_docs", findings, f"{len(pages)} pages")


main()
