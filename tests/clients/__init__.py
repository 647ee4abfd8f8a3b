"""Real clients, through the proxy, on real Kafka; what passed on either side is written down independently."""
