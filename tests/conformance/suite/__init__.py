"""The conformance suite of the clients: reads the cases, drives a testee, and compares its answers.

protocol    the messages of ../testee.proto, and how they are written and read
modules     the HLO modules that cases name
cases       cases as they stand in ../cases/*.jsonl: to requests of the testee, and from its responses to what is wrong with them
server      the server that cases are run against
relay       a server before that server, which does not answer every call
languages   the files of ../languages: what a language needs, how its testee is built and started
driven      a running testee
runner      runs cases, and compares with ../known_failing
"""
