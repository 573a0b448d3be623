"""What runs of tests/robustness are made of.

questions   what callers ask, and what the library answers
mutations   requests changed at random
http_fuzz   the same over HTTP
coverage    which lines and branches have run
callers     callers of several kinds, which write down what they asked and got
http_callers   those over HTTP
history     what they wrote down
prober      a process that asks for health and small answers all the time
attacks     processes that attack a server
faults      what goes wrong
scene       a server with its store, its bucket and its certificates, and everything that asks it
checker     what a run has shown
"""
