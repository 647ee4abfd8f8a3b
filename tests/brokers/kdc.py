"""A Kerberos realm on loopback, for brokers and clients that log in with GSSAPI: a key distribution centre in a JVM.

The centre is Apache Kerby's, as in Kafka's own tests, and keeps its principals in memory. There are no passwords: one
keytab has the keys of all principals. JVMs that log in are started with `jvm_options`, so they ignore the machine's own
Kerberos settings.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from tests.brokers import children
from tests.brokers.jars import Artifact, installed, java
from tests.brokers.ports import Reserved

REALM = "WIRETAP.TEST"
KERBY = "2.1.0"
PROGRAM = Path(__file__).parents[1] / "java" / "Kdc.java"

# a remote console, and a kind of ticket that no test uses
_UNUSED = ("org.jline:jline", "com.jcraft:jsch", "org.jboss.xnio:xnio-api", "com.nimbusds:nimbus-jose-jwt")
_ARTIFACT = Artifact("org.apache.kerby:kerb-simplekdc", KERBY, _UNUSED)

_CONFIGURATION = """[libdefaults]
default_realm = {realm}
udp_preference_limit = 1
dns_lookup_kdc = false
dns_lookup_realm = false
[realms]
{realm} = {{
  kdc = {kdc}
}}
"""


class Kdc:
    """A centre that runs within `with`.

    Args:
        folder: made here; for the keytab and the Kerberos libraries' configuration.
        principals: without their realm, `user` or `service/host`.
    """

    def __init__(self, folder: Path, principals: Sequence[str]) -> None:
        self._folder, self._principals = folder, principals
        self._port = Reserved("127.0.0.1")

    def __enter__(self) -> "Kdc":
        self._folder.mkdir(parents=True)
        libs = installed(f"kerby-{KERBY}", (_ARTIFACT,), Path(__file__).with_name(f"kerby-{KERBY}.sha256")) / "libs"
        command = [java(), "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", os.fspath(libs / "*")]
        arguments = [os.fspath(self._folder), str(self._port.port), REALM, *self._principals]
        log = self._folder / "kdc.log"
        with log.open("wb") as failures:
            self._child, _, said = children.spoken_with([*command, os.fspath(PROGRAM), *arguments], stderr=failures)
        if said.readline() != "ready\n":
            self.close()
            raise RuntimeError(f"the key distribution centre did not start:\n{log.read_text()[-3000:]}")
        self.configuration.write_text(_CONFIGURATION.format(realm=REALM, kdc=self._port))
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        children.stop(self._child)
        children.close_pipes(self._child)
        self._port.release()

    @property
    def jvm_options(self) -> tuple[str, ...]:
        """Options of every JVM on either side of a login; they log no tickets."""
        return (f"-Djava.security.krb5.conf={self.configuration}", "-Dsun.security.krb5.rcache=none")

    def jaas(self, principal: str) -> str:
        """The value of `sasl.jaas.config` for that principal."""
        keytab = f'useKeyTab=true storeKey=true keyTab="{self._folder / "keytab"}" principal="{principal}@{REALM}"'
        return f"com.sun.security.auth.module.Krb5LoginModule required {keytab};"

    @property
    def configuration(self) -> Path:
        """The Kerberos libraries' configuration of the realm."""
        return self._folder / "realm.conf"
