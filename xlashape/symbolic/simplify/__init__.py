"""symbolic/simplify."""
