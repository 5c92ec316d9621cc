"""What a graph function receives."""

from __future__ import annotations

from ._native import Orchestrator, Scope

__all__ = ["Orchestrator", "Scope"]
