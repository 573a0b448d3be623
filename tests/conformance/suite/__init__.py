"""The conformance suite of the clients: reads the cases, drives a testee, and compares its answers.

protocol    the messages of ../testee.proto, and how they are written and read
modules     the HLO modules that cases name
cases       the cases of ../cases/*.jsonl: converts them to requests of the testee, and finds the mistakes in its responses
server      the servers that cases are run against
languages   the files of ../languages: what a language needs, how its testee is built and started
driven      a running testee
runner      runs cases, and compares with ../known_failing
"""
