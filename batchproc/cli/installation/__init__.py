"""What is done to an installation: its database, its examination, its demonstration."""
