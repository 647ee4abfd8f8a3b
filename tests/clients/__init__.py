"""Real clients, through the proxy, on real Kafka; taps on both sides record the bytes independently."""
