"""xlashape as a gRPC service: one process a core, thin above the library.

config          everything that can be set
store, modules  modules by digest; from their bytes to the module, counted first
handlers        request → library call → response, without gRPC
interceptors    deadlines, refusals with details, a line for each call
servicer        the RPCs
worker, app     one process; all of them, started, watched and stopped
"""

from xlashape_server.app import Server, serve
from xlashape_server.config import Config

__all__ = ["Config", "Server", "serve"]
