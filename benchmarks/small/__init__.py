"""Thousands of small problems, and what a solve costs beside its iterations."""
