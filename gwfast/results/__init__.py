"""Results, with their evidence."""
