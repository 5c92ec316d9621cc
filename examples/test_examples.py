"""Every numbered Python example runs and prints what the comment block at its end says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
EXAMPLES = sorted((HERE / "python").glob("[0-9]*.py"))


def expected_output(source: str) -> str:
    """Return the text after the line `# Output:`, without the comment marks."""
    _, found, block = source.partition("\n# Output:\n")
    assert found, "an example ends with a comment block that starts with '# Output:'"
    return "\n".join(line.removeprefix("#").removeprefix(" ").rstrip() for line in block.strip().splitlines())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_prints_what_it_says(example: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, example], cwd=tmp_path, capture_output=True, text=True, timeout=200, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr
    pattern = re.escape(expected_output(example.read_text())).replace(re.escape("..."), ".*")
    assert re.fullmatch(pattern, done.stdout.strip()), done.stdout
