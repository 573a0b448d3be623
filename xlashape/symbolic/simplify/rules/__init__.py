"""The simplifier's rules: one function each, grouped by the operator they rewrite. Their order in a list is the order in which they are tried."""
