"""What tests/conformance/generate.py writes into ../cases.

answered    the answers to a request: the service's handlers, which ask the library
shapes, modules, indexing   cases of each service: answers, mistakes, batches, pages, streams, deadlines
streams     streams both ways, questions in bulk, other servers
maps        maps that a client evaluates by itself
"""
