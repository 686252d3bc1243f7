"""Nodes, peers and a database for tests that need no sockets."""

from nsqlake.nsqlookupd.peers import Peer
from nsqlake.nsqlookupd.registration_db import RegistrationDb
from nsqlake.wire.lookup_commands import NodeDescription

SECOND_NS = 1_000_000_000
NOW_NS = 1_700_000_000 * SECOND_NS
INACTIVE_NS = 300 * SECOND_NS
TOMBSTONE_NS = 45 * SECOND_NS


def new_db(**limits: int) -> RegistrationDb:
    return RegistrationDb(inactive_ns=INACTIVE_NS, tombstone_ns=TOMBSTONE_NS, **limits)


def node(host: str = "h1", *, http_port: int = 4151) -> NodeDescription:
    return NodeDescription(
        broadcast_address=host, hostname="host", tcp_port=4150, http_port=http_port, version="1.3.0"
    )


def add_peer(db: RegistrationDb, host: str = "h1", peer_id: str = "", now_ns: int = NOW_NS) -> Peer:
    return db.add_peer(peer_id or f"{host}:1", node(host), now_ns)


def hosts(peers: "list[Peer] | tuple[Peer, ...]") -> list[str]:
    return [peer.node.broadcast_address for peer in peers]


def clear_traces(db: RegistrationDb) -> None:
    for _ in db.clear_traces():
        pass
