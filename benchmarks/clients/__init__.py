"""Programs that solve Gromov-Wasserstein problems, with their own solver and with gwfast."""
