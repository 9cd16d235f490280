"""What is asked: costs, losses, marginals, epsilon. No algorithm."""
