"""Writes the methods of the clients in every language but Python: one for each RPC of the schema, from the descriptors
and comments of the schema.

    (cd protos && buf generate)         # all generated code
    python protos/client_methods        # the methods alone; needs no buf

    model.py        what the methods are, the same in all languages: a dataclass for each kind of method
    overrides.py    what the descriptors do not say
    inputs.py       what stands for a shape, a module or a map in a request
    error_parts.py  the parts of an error, for the classes of errors
    transfers.py    the functions that store modules and fetch them, in C++, Java and TypeScript
    reasons.py      the reasons of errors as constants
    options.py      the options of the clients
    emitter.py      the base class of the languages: spellings of names, comments
    go.py …         a file for each language: the text of a method of each kind
    languages.py    all languages, and the files that are written for them
    __main__.py     the command, and the plugin of buf

The functions that these methods call are written by hand in each language, such as a call with its deadline and
iterators over pages.
"""
