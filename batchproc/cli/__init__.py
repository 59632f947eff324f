"""The command line. ``main`` is its entry; ``commands`` lists all commands, each with the module that it is in.

Every command is in a file of its own name, in the package of its subject; `shared` has what commands have in common,
`line` what stands around every one of them.
"""
