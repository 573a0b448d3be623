"""What a server tells about itself while it runs: metrics for Prometheus, and traces for OpenTelemetry.

    catalogue.py      every metric: its name, kind, labels and meaning; the files that workers count in
    recorder.py       a worker's side: counters and histograms in files that outlive the worker, and values that the
                      worker is asked for
    server_metrics.py the watching process' side: all metrics together
    endpoint.py       the address where Prometheus asks for them
    spans.py          what calls and handlers know of traces
    tracing.py        a span for each call, and the SDK that sends it

Metrics need prometheus_client, and traces opentelemetry: the extra `telemetry`. Neither is loaded where the setting is
off.
"""
