"""The parts of a run of tests/robustness.

questions      requests of callers, with the library's answers
mutations      requests changed at random
http_fuzz      changed requests over HTTP
coverage       which lines and branches have run
callers        callers of several kinds, which record their requests and the answers
async_callers  callers that use the client for asyncio
http_callers   callers over HTTP
history        the record of a run
prober         a process that checks health and makes small calls all the time
scraper        a process that reads metrics all the time
observers      starts the prober and the scraper, and collects what they find
attacks        processes that attack a server
faults         the faults of a run
scene          a server with its store and its certificates, and all its callers
checker        judges the record of a run
counts         compares the record with the calls that the server has counted
"""
