"""Writes the methods of the clients: one for each RPC of the schema, in every language, from the descriptors and their
comments.

    (cd protos && buf generate)         # all generated code
    python protos/client_methods        # the methods alone; needs no buf

    model.py      what the methods are, the same in all languages: a dataclass for each kind of method
    overrides.py  what the descriptors do not say
    reasons.py    the reasons of errors as constants
    options.py    the options of the clients
    emitter.py    what the languages have in common: names, comments, files
    go.py …       a language each: the text of a method of each kind
    languages.py  all of them
    __main__.py   the command, and the plugin of buf

Each language has written by hand what its methods call: a call with its deadline, items of pages and of streams,
numbers in parts.
"""
