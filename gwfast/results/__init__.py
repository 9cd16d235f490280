"""What is answered, with its evidence."""
