"""Benches: the real thing measured against a physical limit or a bare loop in the same run."""
