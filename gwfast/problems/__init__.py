"""Problems: costs, losses, marginals, epsilon; no algorithm."""
