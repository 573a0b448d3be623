"""xlashape as a gRPC service: one process a core, thin above the library.

config          everything that can be set
settings        where settings come from: a file, variables, options
precount        the memory that a message would take, computed before it is decoded
store           modules by digest, in a directory
bucket          modules in a bucket that servers share, with a store as cache
stored_file     the file of a module, and how it is checked
upload          content on its way into the store
store_faults    from an error of the file system to an error of the library
modules         from the bytes of a module to the module
module_cache    decoded modules of one worker
handlers        request → library call → response, without gRPC
memory          what the calls of a worker may take together
callers         who calls, and how many places one caller may hold
accounts        what one identity may use
auth            who may ask what: bearer tokens, JWTs, certificates
audit           a log line for each upload and deletion
turns           which calls compute at a time
call_threads    the threads of a grpc server, which stay warm
calls           calls under way, and the watch that cuts off those that last too long
guard           what every call passes, whatever carries it: places, sizes, memory, turns, deadlines, refusals
grpc_calls      calls of grpc on their way through the guard
status          from an error of the library to the status of a call
streams         how long the next message of a stream of requests is waited for
services        the RPCs of the schema, registered with grpc
health          grpc.health.v1 in threads of its own
readiness       whether calls can be answered, as health by name
reflection      gRPC reflection: the schema of the server
access          a log line for each call
logs, signals   log lines as JSON; waiting for SIGTERM and SIGINT
telemetry       metrics for Prometheus, and spans of OpenTelemetry
placement       which worker gets a new connection
tls             certificates: checked, and read again when they are replaced
scratch         temporary directories, and those that killed servers left
service_manager what systemd is told
web             the same RPCs over HTTP: Connect, gRPC-Web and gRPC
worker          one process that answers calls
worker_process  the process of a worker as the server sees it: started, watched, replaced, stopped
app             the server: all workers
"""

from xlashape_server.app import Server, serve
from xlashape_server.config import Config

__all__ = ["Config", "Server", "serve"]
