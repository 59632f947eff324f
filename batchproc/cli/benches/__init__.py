"""Each module here is a bench: ``bench NAME`` runs the ``command`` of the module NAME.

What a bench does is imported when it runs: these modules are read all of them for any.
"""
