"""Measurements of gwfast and of its peers: see README.md beside this file.

The programs share ``common``: the runner, the list of problems, data.
"""
