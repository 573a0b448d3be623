"""Prints the peak of a program's memory, the largest buffers at the peak, and what a fusion reads.

python peak.py localhost:50051 attention.hlo.pb ynn_fusion.4
"""

import sys

from xlashape.errors import NotFoundError
from xlashape_client import Client

address, file, fusion = sys.argv[1:]
with Client(address) as client:
    try:
        memory = client.memory(file, max_rows=3)
        print("peak", memory.peak_bytes)
        for buffer in memory.peak_buffers:
            print(buffer.name, buffer.bytes, buffer.shape)
        for read in client.map(file, fusion):
            print(read.operand_name, read.map)
    except NotFoundError as error:
        print(error.code.upper(), error.field, error.name)
