"""The cases that tests/conformance/generate.py writes to ../cases.

answered    answers to requests, computed by the service's handlers
shapes, modules, indexing, reports   cases of each service: answers, mistakes, batches, pages, streams, deadlines
streams     streams in both directions, bulk calls, other servers
maps        maps that the client evaluates
"""
