"""Exports the calls of a capture as OpenTelemetry spans, and their durations as histograms.

`conventions` creates the spans, and `histograms` counts their durations. The result goes into a file as OTLP/JSON
(`json_lines`), or to a collector (`sdk`, `sender`), which needs the extra `otel`.
"""
