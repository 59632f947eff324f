"""The version of this code; where every part of it, and the build, look it up."""

__version__ = "0.1.0"
