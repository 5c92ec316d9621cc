"""Entry point: `python examples/search` from anywhere, or `python -m search` from the examples folder."""

import sys
from pathlib import Path

if __package__:
    from .app import main
else:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from search.app import main

if __name__ == "__main__":
    sys.exit(main())
