"""The options of nsqlookupd: NSQ's own, in NSQ's words, and those that only this daemon has."""

from functools import partial
from typing import Annotated

import msgspec

from nsqlake.runtime.addresses import host_name
from nsqlake.runtime.daemon_options import ConfigPath, LeastLogLevel, LogPrefix, ShowVersion, Verbose
from nsqlake.runtime.durations import MINUTE_NS, SECOND_NS
from nsqlake.runtime.errors import ConfigurationError
from nsqlake.runtime.logs import LogLevel
from nsqlake.runtime.option_kinds import BOOL, DURATION, INT, STRING
from nsqlake.runtime.options import NOT_NEGATIVE, Option, check_limits
from nsqlake.runtime.tls_options import REQUIRE_VERIFY, TLS_MIN_VERSION, TLSVersion, check_key_pair

__all__ = ["NsqlookupdOptions", "validate"]

_network = partial(Option, group="Listeners")
_producer = partial(Option, group="Producers")
_tls = partial(Option, group="TLS")


class NsqlookupdOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Every flag of nsqlookupd; durations in nanoseconds, addresses as given."""

    version: ShowVersion = False
    config: ConfigPath = ""
    log_level: LeastLogLevel = LogLevel.INFO
    log_prefix: LogPrefix = "[nsqlookupd] "
    verbose: Verbose = False

    tcp_address: Annotated[
        str, _network("tcp-address", STRING, "host:port, or path of a unix socket, for nsqd")
    ] = "0.0.0.0:4160"
    http_address: Annotated[
        str, _network("http-address", STRING, 'host:port, or path of a unix socket, for HTTP; "" for no HTTP')
    ] = "0.0.0.0:4161"
    https_address: Annotated[
        str,
        _network(
            "https-address", STRING, 'host:port for HTTPS, used when --tls-cert is set; "" for no HTTPS'
        ),
    ] = "0.0.0.0:4162"
    broadcast_address: Annotated[
        str,
        _network(
            "broadcast-address",
            STRING,
            "address of this node at which nsqd finds its HTTP API",
            default_text="the host name",
        ),
    ] = msgspec.field(default_factory=host_name)
    max_connections: Annotated[
        int,
        _network(
            "max-connections",
            INT,
            "connections of one listener held at once; 0 for as many as file descriptors allow",
            NOT_NEGATIVE,
        ),
    ] = 0

    inactive_producer_timeout_ns: Annotated[
        int,
        _producer(
            "inactive-producer-timeout",
            DURATION,
            "an nsqd that has not pinged for longer is left out of answers",
            NOT_NEGATIVE,
        ),
    ] = 5 * MINUTE_NS
    tombstone_lifetime_ns: Annotated[
        int,
        _producer(
            "tombstone-lifetime",
            DURATION,
            "how long a tombstone hides an nsqd from a topic's consumers",
            NOT_NEGATIVE,
        ),
    ] = 45 * SECOND_NS
    max_registrations: Annotated[
        int,
        _producer(
            "max-registrations", INT, "topics and channels known at once; 0 for any number", NOT_NEGATIVE
        ),
    ] = 500_000
    max_registrations_per_peer: Annotated[
        int,
        _producer(
            "max-registrations-per-peer",
            INT,
            "topics and channels that one nsqd may register; 0 for any number",
            NOT_NEGATIVE,
        ),
    ] = 200_000

    tls_cert: Annotated[
        str,
        _tls(
            "tls-cert",
            STRING,
            "path of the certificate (PEM); with --tls-key it makes the TCP port speak nothing but TLS "
            "and switches HTTPS on",
        ),
    ] = ""
    tls_key: Annotated[str, _tls("tls-key", STRING, "path of the certificate's key (PEM)")] = ""
    tls_client_auth_policy: Annotated[
        str,
        _tls(
            "tls-client-auth-policy",
            STRING,
            "ask nsqd, and whoever uses HTTPS, for a certificate: require (any), or require-verify "
            "(signed by --tls-root-ca-file)",
        ),
    ] = ""
    tls_root_ca_file: Annotated[
        str, _tls("tls-root-ca-file", STRING, "path of certificates (PEM) to trust")
    ] = ""
    tls_min_version: Annotated[
        TLSVersion, _tls("tls-min-version", TLS_MIN_VERSION, "oldest version of TLS")
    ] = TLSVersion.TLS1_2
    tls_match_broadcast_address: Annotated[
        bool,
        _tls(
            "tls-match-broadcast-address",
            BOOL,
            "refuse an nsqd whose broadcast address is not a name in its certificate; needs require-verify",
        ),
    ] = False


def validate(options: NsqlookupdOptions) -> NsqlookupdOptions:
    """The options as they are; ConfigurationError for the first that cannot work."""
    if not options.tcp_address:
        raise ConfigurationError("tcp-address", "", "--tcp-address must not be empty")
    check_key_pair(options)
    policy = options.tls_client_auth_policy
    if policy and not options.tls_cert:
        reason = "--tls-client-auth-policy needs --tls-cert and --tls-key"
        raise ConfigurationError("tls-client-auth-policy", policy, reason)
    if options.tls_match_broadcast_address and policy != REQUIRE_VERIFY:
        reason = f"--tls-match-broadcast-address needs --tls-client-auth-policy={REQUIRE_VERIFY}"
        raise ConfigurationError("tls-match-broadcast-address", True, reason)
    check_limits(options)
    return options
