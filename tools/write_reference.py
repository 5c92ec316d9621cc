"""Write docs/reference from what is shipped, and the example blocks of README.md.

`--check` writes nothing and fails when a page is out of date. The Python page needs the stubs of a built extension; without
them that page is left as it is.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

from checkout import ROOT, name, report, write

HEADERS = [
    "simpler",
    "status",
    "ids",
    "enums",
    "dtype",
    "identity",
    "buffer_descriptor",
    "tensor",
    "buffer",
    "task_args",
    "call_config",
    "callable",
    "chip_callable",
    "orchestrator",
    "run",
    "worker",
    "kernel",
    "orchestration",
]
LONGEST_SHOWN = 260


def head_comment(lines: list[str]) -> list[str]:
    """Return the lines of the comment at the top of a file, without the marks."""
    head = []
    for line in lines:
        if not line.startswith("//"):
            break
        head.append(line.removeprefix("//").removeprefix(" "))
    return head


def public_part(lines: list[str]) -> list[str]:
    """Return a header's declarations without includes and private sections."""
    shown: list[str] = []
    private_indent: int | None = None
    for line in lines[len(head_comment(lines)) :]:
        indent = len(line) - len(line.lstrip())
        if private_indent is not None:
            if line.strip() in ("public:", "};") and indent <= private_indent:
                private_indent = None
            else:
                continue
        if line.strip() == "private:":
            private_indent = indent
            continue
        if re.match(r"#pragma once|#include ", line):
            continue
        if line.strip() == "" and (not shown or shown[-1].strip() == ""):
            continue
        shown.append(line)
    return shown


def as_text(head: list[str]) -> list[str]:
    """Return a comment as page text: indented lines become code."""
    text: list[str] = []
    code = False
    for line in head:
        indented = line.startswith("  ")
        if indented != code and (indented or line.strip()):
            text += ["", "```cpp"] if indented else ["```", ""]
            code = indented
        text.append(line.removeprefix("  ") if code else line)
    if code:
        text.append("```")
    return text


def cpp_page() -> str:
    """Return the page of the C++ interface."""
    known = [ROOT / "include" / "simpler" / f"{stem}.h" for stem in HEADERS]
    rest = sorted(path for path in (ROOT / "include" / "simpler").glob("*.h") if path not in known)
    out = [
        "# C++ interface",
        "",
        "Made by `./dev docs` from the headers; include `simpler/simpler.h` for all but the authors' headers.",
        "",
    ]
    for path in [*(header for header in known if header.exists()), *rest]:
        lines = path.read_text().splitlines()
        out += [f"## {path.relative_to(ROOT / 'include').as_posix()}", "", *as_text(head_comment(lines)), ""]
        body = public_part(lines)
        if 3 < len(body) <= LONGEST_SHOWN:
            out += ["```cpp", *body, "```", ""]
        elif body:
            out += [f"Whole text: [{path.name}](../../{name(path)})", ""]
    return "\n".join(out).rstrip() + "\n"


def option_rows() -> list[str]:
    """Return the table rows of the worker's options."""
    text = (ROOT / "include" / "simpler" / "worker.h").read_text()
    struct = re.search(r"struct WorkerOptions \{\n(.*?)\n\};", text, re.DOTALL)
    rows = ["| Option | Type | Default | Meaning |", "| --- | --- | --- | --- |"]
    for line in struct[1].splitlines() if struct else []:
        match = re.match(r"\s*(\S.*?)\s+(\w+)(?:\s*=\s*([^;]+))?;\s*(?://\s*(.*))?$", line)
        if match:
            default = "–" if match[3] in (None, "{}") else f"`{match[3]}`"
            rows.append(f"| `{match[2]}` | `{match[1].removeprefix('std::')}` | {default} | {match[4] or ''} |")
    return rows


def variable_rows() -> list[str]:
    """Return the table rows of the environment variables."""
    text = (ROOT / "src" / "base" / "environment.cpp").read_text()
    rows = ["| Variable | Meaning |", "| --- | --- |"]
    for variable, meaning in re.findall(r'VariableInfo\{\s*Variable::k\w+,\s*"(\w+)",\s*((?:"[^"]*"\s*)+)\}', text):
        words = "".join(re.findall(r'"([^"]*)"', meaning))
        rows.append(f"| `{variable}` | {words} |")
    return rows


def config_page(text: str) -> str:
    """Return the settings page with its generated tables renewed."""
    for title, rows in (("worker options", option_rows()), ("environment variables", variable_rows())):
        before, begin, rest = text.partition(f"<!-- generated: {title} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        text = "".join((before, begin, "\n".join(rows), "\n", end, after))
    return text


def with_examples(text: str) -> str:
    """Return a page in which each include mark is followed by the code and the output of the example that it names."""
    for mark in re.findall(r"<!-- include: (\S+) -->", text):
        before, begin, rest = text.partition(f"<!-- include: {mark} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        block = ""
        for path in sorted(ROOT.glob(mark))[:1]:
            comment, language = ("#", "python") if path.suffix == ".py" else ("//", "cpp")
            code, _, output = path.read_text().partition(f"\n{comment} Output:\n")
            printed = "\n".join(line.removeprefix(comment).removeprefix(" ") for line in output.strip().splitlines())
            block = (
                f"[{name(path)}]({name(path)}):\n\n```{language}\n{code.strip()}\n```\n\nIt prints\n\n```text\n{printed}\n```\n"
            )
        text = "".join((before, begin, block, end, after))
    return text


def signatures(tree: ast.Module, wanted: set[str] | None) -> list[str]:
    """Return the public classes and functions of a module as page lines."""
    out: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and (wanted is None or node.name in wanted):
            bases = ", ".join(ast.unparse(base) for base in node.bases)
            out += [f"### {node.name}{f' ({bases})' if bases else ''}", "", ast.get_docstring(node) or "", ""]
            members = [made for made in (member(item) for item in node.body) if made]
            out += ["```python", *dict.fromkeys(members), "```", ""] if members else []
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and (wanted is None or node.name in wanted):
            out += [f"### {node.name}", "", "```python", signature(node), "```", "", ast.get_docstring(node) or "", ""]
    return out


def signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{node.name}({ast.unparse(node.args)}){result}"


def member(node: ast.stmt) -> str:
    """Return one line for a public member of a class, or nothing."""
    if isinstance(node, ast.FunctionDef) and (not node.name.startswith("_") or node.name == "__init__"):
        decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
        if "property" in decorators:
            return f"{node.name}: {ast.unparse(node.returns) if node.returns else ''}"
        if any(decorator.endswith(".setter") for decorator in decorators):
            return ""
        return signature(node)
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and not node.target.id.startswith("_"):
        return f"{node.target.id}: {ast.unparse(node.annotation)}"
    return ""


def python_page() -> str | None:
    """Return the page of the Python interface, or None without a package or its stubs."""
    package = ROOT / "python" / "simpler"
    stub = package / "_native.pyi"
    if not stub.exists():
        return None
    top = ast.parse((package / "__init__.py").read_text())
    wanted = exported(top)
    out = [
        "# Python interface",
        "",
        "Made by `./dev docs` from the package and its stubs.",
        "",
        ast.get_docstring(top) or "",
        "",
    ]
    modules: list[Path] = [path for path in sorted(package.rglob("*.py")) if not path.stem.startswith("_")]
    for path in modules:
        lines = signatures(ast.parse(path.read_text()), None)
        if lines:
            module = ".".join(path.relative_to(package.parent).with_suffix("").parts)
            out += [f"## {module}", "", ast.get_docstring(ast.parse(path.read_text())) or "", "", *lines]
    native = signatures(ast.parse(stub.read_text()), wanted or None)
    if native:
        out += ["## simpler: names from the extension", "", *native]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).rstrip() + "\n"


def exported(tree: ast.Module) -> set[str]:
    """Return the words of the package's root module, its exported names among them."""
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def main() -> None:
    reference = ROOT / "docs" / "reference"
    config = reference / "config.md"
    readme = ROOT / "README.md"
    pages = {
        readme: with_examples(readme.read_text()),
        reference / "cpp.md": cpp_page(),
        config: config_page(config.read_text()),
    }
    python = python_page()
    if python is not None:
        pages[reference / "python.md"] = python
    findings = []
    for path, text in pages.items():
        if not path.exists() or path.read_text() != text:
            if "--check" in sys.argv[1:]:
                findings.append(f"{name(path)}: out of date; run ./dev docs")
            else:
                write(path, text)
    report("write_reference", findings, f"{len(pages)} pages")


main()
