"""Faults, each caused for real: what is asserted is the state in which everything ends."""
