"""Write docs/reference from what is shipped, and the example blocks of README.md.

`--check` writes nothing and fails when a page is out of date. The Python page needs the stubs of a built extension; without
them that page is left as it is. A name of `simpler.__all__` that the Python page lacks is a finding.
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
# Interfaces that are inline functions throughout: shown without what the functions do.
INLINE_HEADERS = ("orchestration", "orchestration_tensor")
LONGEST_SIGNATURE = 110
# Comments, texts and brackets of C++.
WITH_BRACKETS = re.compile(r"//[^\n]*|\"(?:\\.|[^\"\n])*\"|[(){}]")


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


def declarations(lines: list[str]) -> list[str]:
    """Return a header's public part without macros, without the namespace `detail`, and with a ; for each body."""
    text = re.sub(r"^#(?:.*\\\n)*.*\n", "", "\n".join(lines) + "\n", flags=re.MULTILINE)
    text = re.sub(r"^// ---[^\n]*\n// ?-+\n", "", text, flags=re.MULTILINE)  # a heading drawn over two lines
    shown, start = "", 0
    for opening in re.finditer(r"//[^\n]*|\"(?:\\.|[^\"\n])*\"|\{", text):
        if opening[0] != "{" or opening.start() < start:
            continue
        before = text[start : opening.start()]
        plain = re.sub(r"\"(?:\\.|[^\"\n])*\"", lambda found: "_" * len(found[0]), before)
        head = before[len(before) - len(re.split(r"[;{}]|//[^\n]*\n", plain)[-1]) :]
        if head.strip() == "namespace detail":
            shown += before.removesuffix(head)
        elif re.match(r"\s*(template <[^>]*>\s*)?(namespace|struct|class|enum|union)\b", head):
            shown += before + "{"
            start = opening.end()
            continue
        elif "(" in head:
            shown += before.removesuffix(head) + declared(head) + ";"
        else:
            continue  # an initialiser
        start = matching(text, opening.start(), "{}") + 1
        if head.strip() == "namespace detail":
            start = text.find("\n", start)  # with the comment after its end
        while more := re.compile(r"\s*(?:,[^{};]*)?\{").match(text, start):  # after an initialiser with braces
            start = matching(text, more.end() - 1, "{}") + 1
    shown += text[start:]
    return re.sub(r"\n{3,}", "\n\n", shown).strip("\n").splitlines()


def declared(head: str) -> str:
    """Return the head of a function without a constructor's initialisers."""
    end = matching(head, head.index("("), "()") + 1
    return head[:end] + re.split(r"(?<!:):(?!:)", head[end:])[0].rstrip()


def matching(text: str, start: int, pair: str) -> int:
    """Return where the bracket that opens at `start` closes; brackets in comments and texts do not count."""
    depth = 0
    for found in WITH_BRACKETS.finditer(text, start):
        depth += (found[0] == pair[0]) - (found[0] == pair[1])
        if depth == 0:
            return found.start()
    return len(text) - 1


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
        if path.stem in INLINE_HEADERS:
            body = declarations(body)
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
    line = f"{node.name}({ast.unparse(node.args)}){result}"
    if len(line) <= LONGEST_SIGNATURE:
        return line
    inner = ",\n    ".join(parameters(node.args))
    return f"{node.name}(\n    {inner},\n){result}"


def parameters(args: ast.arguments) -> list[str]:
    """Return the parameters of a function one by one, with the marks for positional and keyword-only ones."""
    plain = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(plain) - len(args.defaults)) + [*args.defaults]
    shown = [parameter(each, default) for each, default in zip(plain, defaults, strict=True)]
    if args.posonlyargs:
        shown.insert(len(args.posonlyargs), "/")
    if args.vararg or args.kwonlyargs:
        shown.append(f"*{ast.unparse(args.vararg) if args.vararg else ''}")
    shown += [parameter(each, default) for each, default in zip(args.kwonlyargs, args.kw_defaults, strict=True)]
    return shown + ([f"**{ast.unparse(args.kwarg)}"] if args.kwarg else [])


def parameter(each: ast.arg, default: ast.expr | None) -> str:
    equals = "" if default is None else f" = {ast.unparse(default)}" if each.annotation else f"={ast.unparse(default)}"
    return ast.unparse(each) + equals


def member(node: ast.stmt) -> str:
    """Return one line for a public member of a class, or nothing."""
    if isinstance(node, ast.FunctionDef) and (not node.name.startswith("_") or node.name == "__init__"):
        decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
        if "property" in decorators:
            return f"{node.name}: {ast.unparse(node.returns) if node.returns else ''}"
        if any(decorator.endswith(".setter") for decorator in decorators):
            return ""
        return signature(node)
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Constant):
        return "" if node.targets[0].id.startswith("_") else ast.unparse(node)
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
    own = signatures_of_root(package, wanted)
    if own:
        out += ["## simpler", "", *own]
    modules: list[Path] = [path for path in sorted(package.rglob("*.py")) if not path.stem.startswith("_")]
    for path in modules:
        lines = signatures(ast.parse(path.read_text()), None)
        if lines or path.stem in wanted:
            module = ".".join(path.relative_to(package.parent).with_suffix("").parts)
            out += [f"## {module}", "", ast.get_docstring(ast.parse(path.read_text())) or "", "", *lines]
    native = signatures(ast.parse(stub.read_text()), wanted or None)
    if native:
        out += ["## simpler: names from the extension", "", *native]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).rstrip() + "\n"


def signatures_of_root(package: Path, wanted: set[str]) -> list[str]:
    """Return what the root module takes from private modules and defines as values, as page lines."""
    out: list[str] = []
    for path in sorted(package.glob("_*.py")):
        tree = ast.parse(path.read_text())
        if path.stem != "__init__":
            out += signatures(tree, wanted) + constants(tree, wanted)
    return out


def constants(tree: ast.Module, wanted: set[str]) -> list[str]:
    """Return the public values of a module as page lines."""
    lines = []
    for node in tree.body:
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        constant = node.targets[0].id
        if constant in wanted and not constant.startswith("_"):
            lines += [f"### {constant}", "", "```python", f"{constant} = {ast.unparse(node.value)}", "```", ""]
    return lines


def missing_names(page: str, wanted: set[str]) -> list[str]:
    """Return the public names that have no heading on the Python page."""
    headings = re.findall(r"^#{2,3} ([\w.]+)", page, re.MULTILINE)
    known = {*headings, *(heading.removeprefix("simpler.") for heading in headings)}
    return sorted(wanted - known)


def public_names(top: ast.Module) -> set[str]:
    """Return the names in the root module's `__all__`; it is made of texts, `_MODULES` and `_NAMES`."""
    values = {
        node.targets[0].id: node.value
        for node in top.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    names = {text.value for text in ast.walk(values["__all__"]) if isinstance(text, ast.Constant)}
    names |= set(ast.literal_eval(values["_MODULES"]))
    for group in ast.literal_eval(values["_NAMES"]).values():
        names |= set(group)
    return {name for name in names if isinstance(name, str)}


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
    findings = []
    if python is not None:
        pages[reference / "python.md"] = python
        public = public_names(ast.parse((ROOT / "python" / "simpler" / "__init__.py").read_text()))
        findings += [f"docs/reference/python.md: nothing about {each}" for each in missing_names(python, public)]
    for path, text in pages.items():
        if not path.exists() or path.read_text() != text:
            if "--check" in sys.argv[1:]:
                findings.append(f"{name(path)}: out of date; run ./dev docs")
            else:
                write(path, text)
    report("write_reference", findings, f"{len(pages)} pages")


if __name__ == "__main__":
    main()
