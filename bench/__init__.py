"""How fast the proxy is: as ratios to a direct connection and to a bare relay, taken in one run. See README.md."""
