"""``python -m batchproc``: what ``bin/batchproc`` starts."""

from batchproc.cli.line import argv

if __name__ == "__main__":
    argv.mask_passwords()  # first of all: the import of the rest takes a while
    from batchproc.cli.main import main

    main()
