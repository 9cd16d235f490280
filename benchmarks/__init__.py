"""Measurements of gwfast and of its peers: see README.md beside this file.

``common`` (settings, machine, data) is what the folders beside it share; they import it
and not one another, and `report` puts the tables of kernels and solvers together.
"""
