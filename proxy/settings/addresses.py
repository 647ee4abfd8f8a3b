"""What may be written for an address: one of ours to listen on, some of brokers, a host for clients to dial."""

from __future__ import annotations

from functools import partial
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

from proxy.rewrite.nodes import HOST_LIMIT, Address
from proxy.settings.kinds import Kind, Misread, each, shown, text, within


def _address(raw: Any) -> Address:
    written = text(raw)
    try:
        address = Address.parse(written)
    except ValueError as error:
        # its own example is one of a broker; which is right here, only the key knows
        wrong = str(error).split("; right would be")[0]
        raise Misread(wrong.removeprefix(repr(written)).strip()) from error
    _check_letters(address.host)
    return address


def _check_letters(host: str) -> None:
    """Letters beyond ASCII are written in others for DNS, as far as these rules allow (IDNA). Raises Misread."""
    try:
        if not host.isascii():
            host.encode("idna")
    except UnicodeError as error:
        raise Misread("has a host that is no name in DNS") from error


def _parts(raw: Any, of: str) -> list[Any]:
    """Those of a list, or of what stands between commas. `of`: what they are."""
    parts = [part for part in raw.split(",") if part.strip()] if isinstance(raw, str) else raw
    if not isinstance(parts, list) or not parts:
        raise Misread(f"names no {of}")
    return parts


def _brokers(raw: Any) -> tuple[Address, ...]:
    return each(_parts(raw, "broker"), _broker)


def _broker(part: Any) -> Address:
    try:
        address = _address(part)
    except Misread as error:
        raise Misread(f"has {shown(part)}, which {error}") from error
    if not address.port:
        raise Misread(f"has {shown(part)}, whose port is no broker's")
    return address


def _networks(raw: Any) -> tuple[IPv4Network | IPv6Network, ...]:
    return each(_parts(raw, "network"), _network)


def _network(part: Any) -> IPv4Network | IPv6Network:
    try:
        written = text(part)
        return ip_network(written)
    except Misread as error:
        raise Misread(f"has {shown(part)}, which {error}") from error
    except ValueError as error:
        host = " (bits are set behind its length)" if "host bits" in str(error) else ""
        raise Misread(f"has {shown(written)}, which is no network{host}") from error


ADDRESS = Kind("HOST:PORT", _address, str)
BROKERS = Kind("a list of HOST:PORT", _brokers, lambda addresses: [str(address) for address in addresses])
NETWORKS = Kind("a list of networks or IP addresses", _networks, lambda networks: [str(one) for one in networks])
HOST = Kind("a host name or IP address", partial(within, HOST_LIMIT), str)
