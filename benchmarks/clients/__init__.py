"""Programs that solve Gromov-Wasserstein problems, with their own solver and with ours.

Each module has a program's ``NAME``, what pip installs it by (``INSTALL``, empty where
the calls that it makes are written out here, with POT in place of the program), how
many ``LINES`` of a user's change, and ``rows``, which compares both on its problems.
"""
