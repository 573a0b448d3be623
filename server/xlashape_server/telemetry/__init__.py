"""Metrics of a server for Prometheus.

    catalogue.py      every metric: its name, kind, labels and meaning; the files in which workers count
    recorder.py       in a worker: counters and histograms in those files, and the values of the moment that the worker
                      reports to the watching process
    server_metrics.py in the watching process, the parent of the workers: puts the metrics of all workers together
    endpoint.py       the address where Prometheus asks for metrics

They need the package prometheus_client, which the extra `telemetry` installs. It is not imported while the setting
`metrics` is off.
"""
