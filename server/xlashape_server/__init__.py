"""xlashape as a gRPC service: fronts, by default one for each core, and the compute children of each.

A call comes in over gRPC (`grpc_calls`) or HTTP/1.1 (`web`). The `guard` admits it, and the `front` answers it: itself
if it is a small question, and otherwise by a child, which calls a handler (`handlers`).

config          everything that can be set, and where it comes from: a file, variables, options
store           modules by digest, in a directory: uploads, checks, damage, eviction
modules         decodes the modules that requests name, and keeps them
handlers        answer requests with the library; they take and return bytes, and know no transport
conversions     converts messages between JSON and protobuf's own format, and errors to the status of a call
child           the zygote of a front, and the compute children that are forked from it; what they and a front tell each
                other, and streams of requests as files
children        the children as their front sees them: which one a call gets, and what ends one
front           answers calls: here, by a child, or with an answer that was kept
callers         addresses of callers; places, each of which is the right to have one call in progress; which hosts a
                request may name
auth            certificates, checked and reloaded; authentication and authorization by bearer tokens
guard           what every call passes, whatever its transport: places, sizes, deadlines, errors; calls in progress,
                and the watch that ends calls that last too long
grpc_calls      the adapter between gRPC, the guard and the front; the threads in which grpc runs handlers
grpc_services   the services of gRPC itself: health, and what its names follow; reflection, the schema of the server
process         log lines as JSON; waiting for SIGTERM and SIGINT, notifications to systemd; the memory of a process
counts          every metric, and what a worker counts
metrics         the metrics of all workers for Prometheus, and the address where it asks for them
connect         how Connect writes messages and errors; headers
web             the same RPCs over HTTP/1.1, in the protocol Connect, and the page
worker          a front: one process that answers calls
worker_process  the process of a worker as the server sees it: started, watched, replaced, stopped
app             the server: starts, watches and stops the workers
commands        the commands `serve`, `open`, `report`, `health` and `demo`
"""

from xlashape_server.app import Server, serve
from xlashape_server.config import Config

__all__ = ["Config", "Server", "serve"]
