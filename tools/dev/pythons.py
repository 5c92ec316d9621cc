"""Which Python to use, and the virtual environment in the checkout.

A candidate is executed before it is trusted. It must be 3.10 or newer, able to make a virtual environment, and bring the
headers that extensions compile against. Installed requirements are remembered by the hash of their list, so that a second
start asks nobody.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import system
from console import ROOT, Failure, output_of, run, say

VENV = ROOT / ".venv"
TOOLS = ROOT / "tools"
_CANDIDATES = ("python3", "python3.13", "python3.12", "python3.11", "python3.10", "/usr/bin/python3")
_PROBE = """
import importlib.util as u, json, os, sys, sysconfig
header = os.path.join(sysconfig.get_path("include"), "Python.h")
print(json.dumps({
    "version": list(sys.version_info[:2]),
    "executable": sys.executable,
    "venv": all(u.find_spec(name) is not None for name in ("venv", "ensurepip")),
    "headers": os.path.exists(header),
}))
"""


@dataclass(frozen=True)
class Found:
    """A Python that ran, and what it offers."""

    executable: str
    version: tuple[int, int]
    has_venv: bool
    has_headers: bool

    @property
    def is_complete(self) -> bool:
        return self.version >= (3, 10) and self.has_venv and self.has_headers

    def lacks(self) -> str:
        """Return what is missing, in words."""
        wants = []
        if self.version < (3, 10):
            wants.append("it is older than 3.10")
        if not self.has_venv:
            wants.append("it has no venv or ensurepip (Debian: python3-venv)")
        if not self.has_headers:
            wants.append("it has no Python.h (Debian: python3-dev)")
        return ", ".join(wants)


def probe(candidate: str) -> Found | None:
    """Execute `candidate` and return what it is, or None when it does not run."""
    path = shutil.which(candidate)
    text = output_of([path, "-c", _PROBE]) if path else None
    if text is None:
        return None
    facts = json.loads(text)
    major, minor = facts["version"]
    return Found(facts["executable"], (major, minor), facts["venv"], facts["headers"])


def choose(wanted: str | None) -> str:
    """Return the Python that the virtual environment is made from; installs Debian's when none is complete."""
    if wanted is not None:
        found = probe(wanted)
        if found is None:
            raise Failure(f"--python {wanted}: it does not run", 2)
        if not found.is_complete:
            raise Failure(f"--python {wanted}: {found.lacks()}", 2)
        return found.executable
    for candidate in _CANDIDATES:
        found = probe(candidate)
        if found is not None and found.is_complete:
            return found.executable
    system.install(list(system.PYTHON_PACKAGES), "no Python 3.10 or newer with venv and headers")
    found = probe("/usr/bin/python3")
    if found is None or not found.is_complete:
        raise Failure(f"/usr/bin/python3 does not serve: {found.lacks() if found else 'it does not run'}", 2)
    return found.executable


def python() -> Path:
    """Return the interpreter of the virtual environment."""
    return VENV / "bin" / "python"


def ensure_venv(wanted: str | None) -> None:
    """Make the virtual environment unless it is there, works, and was made from the wanted Python."""
    mark = VENV / "made-from"
    if mark.exists() and output_of([python(), "-c", "import sys"]) is not None:
        made_from, place = [*mark.read_text().splitlines(), "", ""][:2]
        moved = place != str(VENV)
        if not moved and (wanted is None or _is(wanted, made_from)):
            return
    base = choose(wanted)
    say(f"making the virtual environment .venv from {base}")
    shutil.rmtree(VENV, ignore_errors=True)
    run([base, "-m", "venv", VENV])
    _publish(mark, f"{base}\n{VENV}\n")


def _is(candidate: str, executable: str) -> bool:
    found = probe(candidate)
    return found is not None and found.executable == executable


def ensure_requirements(*groups: str) -> None:
    """Install tools/requirements-<group>.txt for each group whose list changed since it was installed last."""
    for group in groups:
        listed = TOOLS / f"requirements-{group}.txt"
        digest = hashlib.sha256(listed.read_bytes()).hexdigest()
        stamp = VENV / f"installed-{group}"
        if stamp.exists() and stamp.read_text() == digest:
            continue
        say(f"installing the Python packages of {listed.relative_to(ROOT)}")
        options = ["--no-deps"] if "--no-deps" in listed.read_text().splitlines()[0] else []
        quiet = ["--quiet", "--disable-pip-version-check", "--no-input", "--prefer-binary"]
        run([python(), "-m", "pip", "install", *quiet, *options, "-r", listed])
        _publish(stamp, digest)


def ensure_path_entry() -> None:
    """Let the virtual environment import the package from the checkout."""
    folder = output_of([python(), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"])
    if folder is None:
        raise Failure("the virtual environment does not answer; remove .venv and start again")
    entry = Path(folder.strip()) / "simpler-checkout.pth"
    text = f"{ROOT / 'python'}\n"
    if not entry.exists() or entry.read_text() != text:
        _publish(entry, text)


def tool(name: str, minimum: tuple[int, int]) -> str:
    """Return a program for `name` of at least version `minimum`: the system's, else one from PyPI in the environment."""
    for candidate in (str(VENV / "bin" / name), name):
        path = shutil.which(candidate)
        text = output_of([path, "--version"]) if path else None
        if path and text and _version_in(text) >= minimum:
            return path
    say(f"the system's {name} is missing or older than {minimum[0]}.{minimum[1]}: taking it from PyPI")
    run([python(), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{name}>={minimum[0]}.{minimum[1]}"])
    return str(VENV / "bin" / name)


def environment() -> dict[str, str]:
    """Return the variables for programs that should see the virtual environment first and write no byte code."""
    return {
        "VIRTUAL_ENV": str(VENV),
        "PATH": f"{VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', '/usr/bin:/bin')}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _version_in(text: str) -> tuple[int, int]:
    for word in text.split():
        parts = word.split(".")
        if len(parts) >= 2 and parts[0].isdigit() and parts[1].isdigit():
            return int(parts[0]), int(parts[1])
    return 0, 0


def _publish(path: Path, text: str) -> None:
    """Write by rename, so that a reader sees the old text or the new one."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(text)
    os.replace(fresh, path)
