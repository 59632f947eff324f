"""What waits and what runs: once, on a screen that moves, or as a check."""
