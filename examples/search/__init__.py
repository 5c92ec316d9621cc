"""Semantic search over package descriptions: a real sentence encoder as a task graph on simulated chips."""
