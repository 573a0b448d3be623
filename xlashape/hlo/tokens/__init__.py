"""The words of HLO text.

- `hlo_cursor`: reads them: names, numbers, shapes, braces, on top of `xlashape.text.Cursor`.
- `formatting`: writes them: names and numbers as XLA prints them.
"""
