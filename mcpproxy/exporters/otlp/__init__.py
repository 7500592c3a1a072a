"""OpenTelemetry: the calls of a capture as spans, and their durations as histograms.

`conventions` decides names and attributes, `histograms` counts. The result goes into a file as OTLP/JSON (`json_lines`)
or to a collector (`sdk`, `sender`), which needs the extra `otel`.
"""
