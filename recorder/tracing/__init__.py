"""Exchanges as OpenTelemetry spans, for a collector that takes OTLP over HTTP.

    collector  a collector's address and headers; spans -> requests, by the SDK's exporter; why one failed
    messages   what an exchange says of topics, partitions, records and groups, and its records' trace contexts
    spans      an exchange -> a span, with the attributes of the messaging conventions

The extra `otlp` installs the SDK.
"""
