"""The commands of the command line that need the server. `xlashape.cli` finds them by their entry points.

serving     `serve`, the server; `demo`, which starts one and asks it
opening     `open`, `report`: the page about a module, a shape, …, in a browser and as a file
health      `health`: whether a server answers
page_file   the page as one file, with the answers that it would ask a server for; the calls of the service, answered in
            this process
"""
