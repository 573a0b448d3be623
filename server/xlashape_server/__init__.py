"""xlashape as a gRPC service: one process a core, thin above the library.

config          everything that can be set
settings        where settings come from: a file, variables, options
precount        the memory that a message would take, computed before it is decoded
store           modules by digest, in a directory
stored_file     the file of a module, and how it is checked
upload          content on its way into the store
store_faults    from an error of the file system to an error of the library
modules         from the bytes of a module to the module
module_cache    decoded modules of one worker
handlers        request → library call → response, without gRPC
guard           what surrounds a handler: deadlines, sizes, refusals, a log line for each call
status          from an error of the library to the status of a call
streams         how many streams of requests are taken, and how long each is waited for
services        the RPCs of the schema, registered with grpc
readiness       whether calls can be answered, as health by name
reflection      gRPC reflection: the schema of the server
access          a log line for each call
logs, signals   log lines as JSON; waiting for SIGTERM and SIGINT
placement       which worker gets a new connection
tls             certificates: checked, and read again when they are replaced
scratch         temporary directories, and those that killed servers left
worker          one process that answers calls
worker_process  the process of a worker as the server sees it: started, watched, replaced, stopped
app             the server: all workers
"""

from xlashape_server.app import Server, serve
from xlashape_server.config import Config

__all__ = ["Config", "Server", "serve"]
