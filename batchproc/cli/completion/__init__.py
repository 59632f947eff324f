"""What a shell completes on a line of batchproc, and the command that tells it how."""
