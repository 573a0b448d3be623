"""Truth by execution: what random operations are, what running them shows, what maps say, and whether the two agree.

`case` holds the cases and the table of families, `families` the families themselves, `predicted` turns answers into
matrices of truth values, `judge` compares them with what was seen; `by_numpy` and `by_xla` run cases.
"""
