"""symbolic/map."""
