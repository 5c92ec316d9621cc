"""Check what includes what, and the words that may occur only in certain places.

- a file of src/<library>/ includes only libraries that docs/architecture/layers.txt lists for it, and public headers
- every quoted include resolves from src/, include/, or the root of its own tree; beside the file only in a suite or example
- a public header includes only public headers and the standard library
- names of chip generations occur in product code only under src/spec/
- the environment is read in src/base/environment.cpp only
- the preprocessor chooses between compilers and systems, never between behaviours
"""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

from checkout import ROOT, files, name, report

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')
CONDITION = re.compile(r"^\s*#\s*(?:if|ifdef|ifndef|elif)\b(.*)")
GENERATION = re.compile(r"(?i)(?<![a-z0-9])k?(?:a2a3|a5)(?:sim)?(?![a-z0-9])")
UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")
READS_ENVIRONMENT = re.compile(r"\b(?:secure_)?getenv\s*\(|\benviron\b|os\.getenv")
# The second hands the whole environment on to a compiler without looking into it.
ENVIRONMENT_FILES = {"src/base/environment.cpp", "src/compile/program.cpp"}
# The documented helper whose purpose is to hand out variables that its caller names.
PYTHON_ENVIRONMENT_FILES = {"python/simpler/env_manager.py"}
# Headers of one name in several folders, of which the build puts one on the include path of each module.
CHOSEN_BY_BUILD = {"src/kernels/body": "src/kernels/body/generic"}

# Conditions name what a compiler or system offers: its own macros, and constants of the kernel's headers.
ALLOWED_IN_CONDITIONS = re.compile(
    r"defined|__\w+|(?:SYS|MFD|MADV|MAP|PR|F|O|P|FUTEX|MEMBARRIER|CLONE|PIDFD|EM|RTLD|PY)_\w+|\d\w*"
)
# Macros that a build step of ours sets for one file, which therefore is the same in every build.
CONDITION_EXCEPTIONS: dict[str, set[str]] = {}

# The C++20 library, plus C headers in C++ spelling; anything else is not standard.
STANDARD = {
    "algorithm",
    "any",
    "array",
    "atomic",
    "barrier",
    "bit",
    "bitset",
    "charconv",
    "chrono",
    "codecvt",
    "compare",
    "complex",
    "concepts",
    "condition_variable",
    "coroutine",
    "deque",
    "exception",
    "execution",
    "filesystem",
    "forward_list",
    "fstream",
    "functional",
    "future",
    "initializer_list",
    "iomanip",
    "ios",
    "iosfwd",
    "iostream",
    "istream",
    "iterator",
    "latch",
    "limits",
    "list",
    "locale",
    "map",
    "memory",
    "memory_resource",
    "mutex",
    "new",
    "numbers",
    "numeric",
    "optional",
    "ostream",
    "queue",
    "random",
    "ranges",
    "ratio",
    "regex",
    "scoped_allocator",
    "semaphore",
    "set",
    "shared_mutex",
    "source_location",
    "span",
    "sstream",
    "stack",
    "stdexcept",
    "stop_token",
    "streambuf",
    "string",
    "string_view",
    "syncstream",
    "system_error",
    "thread",
    "tuple",
    "type_traits",
    "typeindex",
    "typeinfo",
    "unordered_map",
    "unordered_set",
    "utility",
    "valarray",
    "variant",
    "vector",
    "version",
    "cassert",
    "cctype",
    "cerrno",
    "cfenv",
    "cfloat",
    "cinttypes",
    "climits",
    "clocale",
    "cmath",
    "csetjmp",
    "csignal",
    "cstdarg",
    "cstddef",
    "cstdint",
    "cstdio",
    "cstdlib",
    "cstring",
    "ctime",
    "cuchar",
    "cwchar",
    "cwctype",
    "stdint.h",
    "stddef.h",
}


def read_layers() -> dict[str, tuple[int, set[str]]]:
    """Return layer and allowed libraries of each library."""
    layers: dict[str, tuple[int, set[str]]] = {}
    for line in (ROOT / "docs" / "architecture" / "layers.txt").read_text().splitlines():
        match = re.match(r"(\d+) ([a-z]+):(.*)$", line)
        if match:
            layers[match[2]] = (int(match[1]), set(match[3].split()) | {"base"})
    return layers


def check_graph(layers: dict[str, tuple[int, set[str]]]) -> list[str]:
    """Check that every listed edge points down and every folder of src/ is listed."""
    found = []
    for library, (layer, uses) in layers.items():
        for used in uses - {library}:
            if used not in layers:
                found.append(f"docs/architecture/layers.txt: {library} may use {used}, which is not listed")
            elif library != "base" and layers[used][0] >= layer:
                found.append(f"docs/architecture/layers.txt: {library} -> {used} does not point down")
    for folder in sorted((ROOT / "src").iterdir()):
        if folder.is_dir() and folder.name not in layers:
            found.append(f"src/{folder.name}: not listed in docs/architecture/layers.txt")
    return found


def check_includes(path: Path, lines: list[str], layers: dict[str, tuple[int, set[str]]]) -> list[str]:
    found = []
    parts = path.relative_to(ROOT).parts
    roots = [ROOT / "src", ROOT / "include", ROOT / parts[0]]
    if parts[0] in ("tests", "bench", "examples"):
        roots.append(path.parent)
    roots += [ROOT / chosen for folder, chosen in CHOSEN_BY_BUILD.items() if name(path).startswith(f"{folder}/")]
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quoted, spelled = match[1] == '"', match[2]
        where = f"{name(path)}:{number}"
        if parts[0] == "include":
            if not spelled.startswith("simpler/") and spelled not in STANDARD:
                found.append(f"{where}: a public header includes {spelled}, which is neither public nor standard")
        elif quoted and not any((root / spelled).is_file() for root in roots):
            found.append(f'{where}: "{spelled}" is not found from src/, include/ or {parts[0]}/: spell the path from there')
        if parts[0] == "src" and quoted and "/" in spelled:
            used, library = spelled.split("/")[0], parts[1]
            if used not in (library, "simpler") and used in layers and used not in layers[library][1]:
                found.append(f"{where}: {library} includes {spelled}, but docs/architecture/layers.txt lists no {used} for it")
    return found


def check_words(path: Path, lines: list[str]) -> list[str]:
    found = []
    relative = name(path)
    is_test = path.stem.endswith("_test") or relative.startswith(("tests/", "bench/", "examples/"))
    for number, line in enumerate(lines, 1):
        where = f"{relative}:{number}"
        if not is_test and not relative.startswith("src/spec/") and GENERATION.search(line):
            found.append(f"{where}: names a chip generation outside src/spec/: {line.strip()}")
        if not is_test and relative not in ENVIRONMENT_FILES and READS_ENVIRONMENT.search(line.split("//")[0]):
            found.append(f"{where}: reads the environment; src/base/environment.cpp is the place")
        if UNFINISHED.search(line):
            found.append(f"{where}: marks something unfinished; finish it or write an issue")
        condition = CONDITION.match(line)
        if condition and not is_test:
            words = re.findall(r"(?<!\w)[A-Za-z_]\w*", re.sub(r"//.*|<[^>]*>|\"[^\"]*\"", "", condition[1]))
            guard = re.match(r"\s*#\s*ifndef\s+(\w+)\s*$", line)
            if guard and number < len(lines) and re.match(rf"\s*#\s*define\s+{guard[1]}\b", lines[number]):
                continue  # a name that its user may have defined already
            odd = {word for word in words if not ALLOWED_IN_CONDITIONS.fullmatch(word)} - CONDITION_EXCEPTIONS.get(
                relative, set()
            )
            if odd:
                found.append(f"{where}: behaviour chosen by a macro: {', '.join(sorted(odd))}")
    return found


def check_python(path: Path) -> list[str]:
    """Check the package: chip generations only in docstrings, the environment not at all."""
    found = []
    relative = name(path)
    previous = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        is_docstring = token.type == tokenize.STRING and previous in (
            tokenize.NEWLINE,
            tokenize.INDENT,
            tokenize.NL,
            tokenize.DEDENT,
        )
        if token.type in (tokenize.NAME, tokenize.STRING) and not is_docstring and GENERATION.search(token.string):
            found.append(f"{relative}:{token.start[0]}: names a chip generation: {token.string}")
        previous = token.type
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if relative not in PYTHON_ENVIRONMENT_FILES and re.search(r"\bos\.(environ|getenv)\b", line.split("#")[0]):
            found.append(f"{relative}:{number}: reads the environment; src/base/environment.cpp is the place")
    return found


def main() -> None:
    layers = read_layers()
    findings = check_graph(layers)
    looked_at = 0
    for path in files(("src", "include", "python", "tests", "bench", "examples"), (".h", ".cpp")):
        lines = path.read_text().splitlines()
        findings += check_includes(path, lines, layers) + check_words(path, lines)
        looked_at += 1
    for path in files(("python/simpler",), (".py",)):
        findings += check_python(path)
        looked_at += 1
    report("check_layers", findings, f"{looked_at} files")


main()
