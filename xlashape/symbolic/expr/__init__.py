"""symbolic/expr."""
