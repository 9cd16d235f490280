"""Measurements of gwfast and of its peers: see README.md beside this file.

``common`` (the runner, the list of problems, data) is what the programs beside it share.
"""
