"""Metrics of a server for Prometheus, and traces of its calls for OpenTelemetry.

    catalogue.py      every metric: its name, kind, labels and meaning; the files in which workers count
    recorder.py       in a worker: counters and histograms in those files, and the values of the moment that the worker
                      reports to the watching process
    server_metrics.py in the watching process, the parent of the workers: puts the metrics of all workers together
    endpoint.py       the address where Prometheus asks for metrics
    spans.py          the interface by which calls and handlers make spans; it does not import OpenTelemetry
    tracing.py        makes the spans with OpenTelemetry, whose SDK sends them

Metrics need the package prometheus_client, and traces need opentelemetry; the extra `telemetry` installs both. Neither
is imported while its setting is off.
"""
