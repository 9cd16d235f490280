"""Searches judged by known matches, and the worth of plans."""
