"""The encoder as something a chip can run: `encoder.cpp` compiled, with the ready-made kernels that it submits."""

from __future__ import annotations

from pathlib import Path

import simpler
from simpler import ArgDirection, ChipCallable

SOURCE = Path(__file__).resolve().parent / "encoder.cpp"

# In the order of the enum Kernel of encoder.cpp.
KERNELS = ("embedding_layernorm", "matmul_bias", "attention", "add_layernorm", "mean_pool", "l2norm")


def build_encoder(weights: int) -> ChipCallable:
    """ids, lengths, vectors (written), then `weights` weights."""
    return simpler.compile(
        SOURCE,
        signature=[ArgDirection.IN, ArgDirection.IN, ArgDirection.OUT, *[ArgDirection.IN] * weights],
        func_name="encode",
        config_name="encode_config",
        children=[(number, getattr(simpler.kernels, name)) for number, name in enumerate(KERNELS)],
    )
