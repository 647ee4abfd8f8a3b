"""What stands between this machine and a cluster's brokers, step by step: `kafka-wiretap check`.

step          one step's outcome: a value
examination   the steps of one cluster, from the look-up of its servers to the addresses that its nodes advertise
session       a connection to a broker, logged in if that is asked for: one request after the other
trial         a record produced and read back

Brokers are dialled, and asked for the nodes, by the proxy's own functions (`brokers/`, `sockets/`). No listener opens.
"""

from proxy.net.doctor.examination import examine
from proxy.net.doctor.session import LoginDialogue, StartLogin
from proxy.net.doctor.step import Outcome, Step
from proxy.net.doctor.trial import Trial

__all__ = ["LoginDialogue", "Outcome", "StartLogin", "Step", "Trial", "examine"]
