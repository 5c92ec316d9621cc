"""The demo's embedding throughput beside its numpy encoder; see examples/search/bench_demo.py."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

from search.bench_demo import main

if __name__ == "__main__":
    sys.exit(main())
