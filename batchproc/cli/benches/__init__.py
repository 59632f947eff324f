"""How fast it is here: ``bench NAME`` runs the ``command`` of the module NAME, which ``bench`` lists.

What a bench does is imported when it runs: these modules are read all of them for any.
"""
