"""System packages: which are missing, and how to get them.

A need is met when its probe finds a program or a header, whoever installed it. The names are Debian's.
"""

from __future__ import annotations

import glob
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from console import Failure, output_of, run, say


@dataclass(frozen=True)
class Need:
    """A Debian package, and a program on PATH or a header (glob below an include directory) that shows it is there."""

    package: str
    program: str = ""
    header: str = ""

    def is_met(self) -> bool:
        if self.program:
            return shutil.which(self.program) is not None
        return any(glob.glob(os.path.join(folder, self.header)) for folder in _include_folders())


BUILD_NEEDS = (
    Need("g++", program="g++"),
    Need("cmake", program="cmake"),
    Need("ninja-build", program="ninja"),
    Need("ccache", program="ccache"),
    Need("pkg-config", program="pkg-config"),
    Need("libssl-dev", header="openssl/evp.h"),
    Need("libfmt-dev", header="fmt/core.h"),
    Need("nlohmann-json3-dev", header="nlohmann/json.hpp"),
    Need("libgtest-dev", header="gtest/gtest.h"),
)
LINT_NEEDS = (
    Need("clang", program="clang++"),
    Need("clang-format", program="clang-format"),
    Need("clang-tidy", program="clang-tidy"),
)
BENCH_NEEDS = (
    Need("libboost1.81-dev", header="boost/unordered/unordered_flat_map.hpp"),
    Need("valgrind", program="valgrind"),
)
# Runtimes to measure beside. The benchmarks are complete without them and name the ones that are missing.
PEER_NEEDS = (
    Need("libtbb-dev", header="tbb/flow_graph.h"),
    Need("libstarpu-dev", header="starpu/1.3/starpu.h"),
)
PYTHON_PACKAGES = ("python3", "python3-venv", "python3-dev")


def _include_folders() -> list[str]:
    return ["/usr/include", "/usr/local/include", *os.environ.get("CPATH", "").split(":")]


def root_prefix() -> list[str] | None:
    """Return the words that run a command as root ([] for root itself), or None when that takes a password or is refused."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") and output_of(["sudo", "-n", "true"]) is not None:
        return ["sudo", "-n"]
    return None


def install_line(packages: list[str]) -> str:
    """Return the one line that installs `packages` by hand."""
    return "sudo apt-get update && sudo apt-get install --no-install-recommends " + " ".join(packages)


def install(packages: list[str], why: str) -> None:
    """Install Debian packages, or say which line to run and leave with status 2."""
    prefix = root_prefix()
    if shutil.which("apt-get") is None or prefix is None:
        raise Failure(
            f"{why}: missing {', '.join(packages)}; neither root nor password-less sudo here. Run this, then start again:\n"
            f"  {install_line(packages)}",
            2,
        )
    say(f"{why}: installing {', '.join(packages)}")
    quiet = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-o", "DPkg::Lock::Timeout=300"]
    run([*prefix, *quiet, "update"], check=False)
    status = run([*prefix, *quiet, "install", "-y", "--no-install-recommends", *packages], check=False)
    if status != 0:
        raise Failure(f"{why}: apt-get could not install {', '.join(packages)} (see above)", 2)


def ensure(needs: tuple[Need, ...], why: str) -> None:
    """Install whatever of `needs` is missing; return at once when nothing is."""
    missing = [need for need in needs if not need.is_met()]
    if not missing:
        return
    install([need.package for need in missing], why)
    still = [need.package for need in missing if not need.is_met()]
    if still:
        raise Failure(f"{why}: installed but not found afterwards: {', '.join(still)}", 2)


def ensure_if_possible(needs: tuple[Need, ...], why: str) -> None:
    """Install whatever of `needs` is missing; where that cannot be done, say so and go on."""
    try:
        ensure(needs, why)
    except Failure as failure:
        say(f"{failure}\n  going on without")


def lists_are_empty() -> bool:
    """Return whether this machine has no package lists yet (a fresh image)."""
    return not any(Path("/var/lib/apt/lists").glob("*_Packages*"))
