"""What several formats have in common. Only formats import it."""
