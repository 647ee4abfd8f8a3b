"""The test suite. It mirrors the tree; brokers/ starts real Kafka, clients/ sends real clients through the proxy."""
