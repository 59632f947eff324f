"""Figures for Prometheus: what this node has counted, and what the database says of the queue."""
