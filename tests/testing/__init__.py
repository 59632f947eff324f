"""Tests of what handlers are tested with."""
