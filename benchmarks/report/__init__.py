"""gwfast beside POT, OTT-JAX and other peers on the same problems."""
