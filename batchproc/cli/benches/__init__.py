"""The benches, a file each: ``bench NAME`` is the ``command`` of the module NAME here.

What a bench does is imported when it runs: these modules are read all of them for any.
"""
