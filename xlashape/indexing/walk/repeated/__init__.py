"""Maps through a computation that runs again and again on a state: while loops and scans. The hardest code of the
package.

- `iterations`: **the algorithm**, shared by loops and scans. `StateWalk` follows the maps of a state from iteration to
  iteration. Read this first. Values have numbers, so that two offsets with the same value within one iteration are
  known to be the same.
- `counters`: the integers that follow from a counter, as functions of the number of the iteration.
- `repetition`: what a loop knows of the maps of the instructions in its body: elements that are overwritten, choices.
- `timed`: maps through loops in which the number of the iteration is a variable.
- `trip_count`: how often a while loop runs, where that is known before it runs.
- `while_loop`: the maps of a while loop, by following its body.
- `scan`: the maps of a scan, by following its body and placing slices in the scanned arrays.
"""
