"""Exchanges as OpenTelemetry spans, for a collector that takes OTLP over HTTP: of a capture, or as they pass.

    collector  spans and metrics -> requests, by the SDK's exporters; why one failed
    numbers    the text of a metrics page -> OTLP metrics
    headers    what a collector wants to be told, in a file
    sender     sends in a thread of its own, with a limited queue before it
    messages   what an exchange says of topics, partitions, records and groups, and its records' trace contexts
    spans      an exchange -> a span, with the attributes of the messaging conventions

The extra `otlp` installs the SDK.
"""
