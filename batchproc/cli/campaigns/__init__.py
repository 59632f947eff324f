"""What was begun by one command, as a whole."""
