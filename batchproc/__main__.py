"""``python -m batchproc``: what ``bin/batchproc`` starts."""

from batchproc.cli.main import main

if __name__ == "__main__":
    main()
