"""One connection as `/stats` shows it."""

from typing import TYPE_CHECKING

from msgspec import UNSET, UnsetType

from nsqlake.nsqd.stats.tls_names import suite_name
from nsqlake.nsqd.stats.values import ClientStats, PubCount

if TYPE_CHECKING:
    from nsqlake.nsqd.session import Session
    from nsqlake.nsqd.tcp_protocol import TcpConnection

__all__ = ["describe_client"]

_SECOND_NS = 1_000_000_000


def describe_client(connection: "TcpConnection", topic: str) -> ClientStats:
    """The client on this connection; of its publishes those to `topic`, or to any if that is ""."""
    session = connection.session
    settings, subscription, identity = session.settings, session.subscription, session.authorisation.state
    tls = connection.layers.tls if session.is_tls else None
    return ClientStats(
        client_id=settings.client_id,
        hostname=settings.hostname,
        version="V2",
        remote_address=connection.remote_address,
        state=int(session.state),
        ready_count=subscription.ready if subscription else 0,
        in_flight_count=subscription.in_flight if subscription else 0,
        message_count=subscription.message_count if subscription else 0,
        finish_count=subscription.finish_count if subscription else 0,
        requeue_count=subscription.requeue_count if subscription else 0,
        connect_ts=connection.connected_ns // _SECOND_NS,
        sample_rate=settings.sample_rate,
        deflate=settings.deflate,
        snappy=settings.snappy,
        user_agent=settings.user_agent,
        authed=identity is not None,
        auth_identity=identity.identity if identity else "",
        auth_identity_url=identity.identity_url if identity else "",
        topology_zone=settings.topology_zone,
        topology_region=settings.topology_region,
        pub_counts=_pub_counts(session, topic),
        tls=tls is not None,
        tls_cipher_suite=suite_name(tls.cipher_number) if tls else "",
        tls_version=tls.version if tls else "",
        tls_negotiated_protocol=tls.negotiated_protocol if tls else "",
        tls_negotiated_protocol_is_mutual=tls is not None,
    )


def _pub_counts(session: "Session", topic: str) -> list[PubCount] | UnsetType:
    """At most one, as NSQ shows them."""
    counts = session.publish_counts
    if topic:
        return [PubCount(topic, counts[topic])] if topic in counts else UNSET
    return [PubCount(*item) for item in list(counts.items())[:1]] if counts else UNSET
