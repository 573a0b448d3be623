"""xlashape as a gRPC service: by default one process for each core, each of them a thin layer above the library.

A call comes in over gRPC (`grpc_calls`) or HTTP/1.1 (`web`). The `guard` admits it and bounds its time and memory, and
a handler (`handlers`) answers it with the library.

config          everything that can be set
settings        where settings come from: a file, variables, options
precount        the memory that a message will take, computed before it is decoded
bucket          objects in a bucket of a cloud
store           modules by digest, in a directory or in a bucket that servers share: uploads, checks, damage, eviction
modules         decodes the modules that requests name; the caches of decoded modules and of answers about them
handlers        answer requests with the library; they take and return bytes, and know no transport
memory          the memory budget of a worker, from which calls reserve
callers         addresses and connections of callers; places, each of which is the right to have one call in progress
auth            authentication and authorization by bearer tokens
turns           which calls may compute at the same time
calls           calls in progress, and the watch that ends calls that last too long
guard           what every call passes, whatever its transport: places, sizes, memory, turns, deadlines, errors
grpc_calls      the adapter between gRPC and the guard
status          converts an error of the library to the status of a call
streams         reads streams of requests until the deadline of the call
services        the RPCs of the schema, registered with grpc
health          grpc.health.v1 in threads of its own
readiness       the health names for liveness and readiness probes
reflection      gRPC reflection: the schema of the server
access          log lines of calls
logs, signals   log lines as JSON; waiting for SIGTERM and SIGINT, notifications to systemd
telemetry       metrics for Prometheus
sockets         the connections of a worker: how many there may be, and how many of one caller
hosts           the hosts that requests over HTTP may name
tls             certificates: checked at the start, and reloaded when their files change
scratch         temporary directories, and removal of those that killed servers left
web             the same RPCs over HTTP/1.1, in the protocol Connect, and the page
worker          one process that answers calls
worker_process  the process of a worker as the server sees it: started, watched, replaced, stopped
app             the server: starts, watches and stops the workers
commands        the commands `serve`, `open`, `report`, `health` and `demo`
"""

from xlashape_server.app import Server, serve
from xlashape_server.config import Config

__all__ = ["Config", "Server", "serve"]
