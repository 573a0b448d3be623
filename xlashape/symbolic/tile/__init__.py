"""symbolic/tile."""
