"""The options of nsqd: NSQ's own, in NSQ's words, and those that only this daemon has."""

import hashlib
import zlib
from functools import partial
from typing import Annotated

import msgspec

from nsqlake.nsqd.option_choices import (
    ACK_AFTER,
    HTTP_AUTH,
    TLS_REQUIRED,
    AckAfter,
    HttpAuth,
    TLSRequired,
)
from nsqlake.nsqd.retention_policies import Kept, RetentionPolicies
from nsqlake.runtime.addresses import host_name
from nsqlake.runtime.daemon_options import ConfigPath, LeastLogLevel, LogPrefix, ShowVersion, Verbose
from nsqlake.runtime.durations import (
    HOUR_NS,
    MICROSECOND_NS,
    MILLISECOND_NS,
    MINUTE_NS,
    SECOND_NS,
)
from nsqlake.runtime.errors import ConfigurationError
from nsqlake.runtime.go_text import go_float
from nsqlake.runtime.logs import LogLevel
from nsqlake.runtime.option_kinds import BOOL, DURATION, FLOAT_LIST, INT, STRING, STRING_LIST
from nsqlake.runtime.options import NOT_NEGATIVE, POSITIVE, Limit, Option, check_limits
from nsqlake.runtime.tls_options import TLS_MIN_VERSION, TLSVersion, check_key_pair

NODE_COUNT = 1024  # a message id has 10 bits for its node


def default_node_id() -> int:
    digest = hashlib.md5(host_name().encode(), usedforsecurity=False).digest()
    return zlib.crc32(digest) % NODE_COUNT


_general = partial(Option, group="General")
_network = partial(Option, group="Listeners and discovery")
_storage = partial(Option, group="Storage and durability")
_message = partial(Option, group="Messages")
_client = partial(Option, group="Limits for clients")
_tls = partial(Option, group="TLS and compression")
_auth = partial(Option, group="Authorisation")
_statsd = partial(Option, group="statsd and latency")
_tuning = partial(Option, group="Tuning and experiments")


class NsqdOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Every flag of nsqd; durations in nanoseconds, addresses as given, lists as tuples."""

    version: ShowVersion = False
    config: ConfigPath = ""
    log_level: LeastLogLevel = LogLevel.INFO
    log_prefix: LogPrefix = "[nsqd] "
    verbose: Verbose = False
    node_id: Annotated[
        int,
        _general(
            "node-id",
            INT,
            "number of this node in its message ids, different on every node of a cluster",
            Limit(lambda value: 0 <= value < NODE_COUNT, "must be [0,1024)"),
            key="id",
            default_text="hash of the host name",
        ),
    ] = msgspec.field(default_factory=default_node_id)
    worker_id: Annotated[
        bool, _general("worker-id", BOOL, "no effect, use --node-id", in_config=False, deprecated=True)
    ] = False

    tcp_address: Annotated[
        str, _network("tcp-address", STRING, "host:port, or path of a unix socket, for TCP clients")
    ] = "0.0.0.0:4150"
    http_address: Annotated[
        str, _network("http-address", STRING, 'host:port, or path of a unix socket, for HTTP; "" for no HTTP')
    ] = "0.0.0.0:4151"
    https_address: Annotated[
        str,
        _network(
            "https-address", STRING, 'host:port for HTTPS, used when --tls-cert is set; "" for no HTTPS'
        ),
    ] = "0.0.0.0:4152"
    broadcast_address: Annotated[
        str,
        _network(
            "broadcast-address",
            STRING,
            "address of this node that nsqlookupd gives to consumers",
            default_text="the host name",
        ),
    ] = msgspec.field(default_factory=host_name)
    broadcast_tcp_port: Annotated[
        int,
        _network("broadcast-tcp-port", INT, "TCP port announced to nsqlookupd; 0 for that of --tcp-address"),
    ] = 0
    broadcast_http_port: Annotated[
        int,
        _network(
            "broadcast-http-port", INT, "HTTP port announced to nsqlookupd; 0 for that of --http-address"
        ),
    ] = 0
    lookupd_tcp_addresses: Annotated[
        tuple[str, ...],
        _network(
            "lookupd-tcp-address",
            STRING_LIST,
            "host:port of an nsqlookupd; may be given several times",
            key="nsqlookupd_tcp_addresses",
        ),
    ] = ()
    lookupd_tls: Annotated[
        bool,
        _network(
            "lookupd-tls", BOOL, "speak TLS with every nsqlookupd, whose certificate and host are verified"
        ),
    ] = False
    lookupd_tls_root_ca_file: Annotated[
        str,
        _network(
            "lookupd-tls-root-ca-file",
            STRING,
            "path of certificates (PEM) to trust for that, instead of the system's",
        ),
    ] = ""
    lookupd_tls_cert: Annotated[
        str,
        _network("lookupd-tls-cert", STRING, "path of a certificate (PEM) to show to nsqlookupds that ask"),
    ] = ""
    lookupd_tls_key: Annotated[
        str, _network("lookupd-tls-key", STRING, "path of that certificate's key (PEM)")
    ] = ""
    max_connections: Annotated[
        int,
        _network(
            "max-connections",
            INT,
            "client connections held at once; 0 for as many as file descriptors allow",
            NOT_NEGATIVE,
        ),
    ] = 0

    data_path: Annotated[
        str,
        _storage("data-path", STRING, "existing directory for messages and metadata, if not the current one"),
    ] = ""
    mem_queue_size: Annotated[
        int,
        _storage("mem-queue-size", INT, "messages kept in memory per topic, besides the log", NOT_NEGATIVE),
    ] = 10_000
    mem_bytes: Annotated[
        int, _storage("mem-bytes", INT, "bytes of messages kept in memory by the whole daemon", NOT_NEGATIVE)
    ] = 268_435_456
    max_bytes_per_file: Annotated[
        int, _storage("max-bytes-per-file", INT, "bytes of one log file before the next is begun", POSITIVE)
    ] = 104_857_600
    ack_after: Annotated[
        AckAfter,
        _storage(
            "ack-after",
            ACK_AFTER,
            "when a publish is answered OK: once written (survives a crash of the daemon) "
            "or once synced to disk (survives a loss of power)",
        ),
    ] = AckAfter.WRITE
    sync_every: Annotated[
        int, _storage("sync-every", INT, "messages written to a topic before its log is synced to disk")
    ] = 2_500
    sync_timeout_ns: Annotated[
        int,
        _storage("sync-timeout", DURATION, "longest time written messages wait for a sync to disk", POSITIVE),
    ] = 2 * SECOND_NS
    min_free_bytes: Annotated[
        int,
        _storage("min-free-bytes", INT, "publishing stops while the disk has less free space", NOT_NEGATIVE),
    ] = 1_048_576
    retention_time_ns: Annotated[
        int,
        _storage(
            "retention-time",
            DURATION,
            "time for which a topic keeps messages that every channel has finished; 0 for no time",
            NOT_NEGATIVE,
        ),
    ] = 0
    retention_bytes: Annotated[
        int,
        _storage(
            "retention-bytes",
            INT,
            "bytes of such messages that a topic keeps, whatever their age; 0 for none",
            NOT_NEGATIVE,
        ),
    ] = 0
    retention_policies: Annotated[
        tuple[str, ...],
        _storage(
            "retention-policy",
            STRING_LIST,
            "PATTERN:time=24h,bytes=10GiB for topics whose names match, instead of the two above; "
            "may be given several times, the first match counts",
        ),
    ] = ()
    max_txn_bytes: Annotated[
        int,
        _storage(
            "max-txn-bytes",
            INT,
            "bytes that all transactions may have staged and not committed; 0 for any number",
            NOT_NEGATIVE,
        ),
    ] = 4 * 1024**3
    txn_timeout_ns: Annotated[
        int,
        _storage(
            "txn-timeout", DURATION, "time after which a transaction nobody commits is dropped", POSITIVE
        ),
    ] = HOUR_NS
    txn_retention_ns: Annotated[
        int,
        _storage(
            "txn-retention",
            DURATION,
            "time for which a producer's last committed transaction is remembered, so that it is not "
            "taken for a new one when it is sent again",
            POSITIVE,
        ),
    ] = 30 * 24 * HOUR_NS
    max_topics: Annotated[
        int, _storage("max-topics", INT, "topics this node holds at once; 0 for any number", NOT_NEGATIVE)
    ] = 0

    msg_timeout_ns: Annotated[
        int, _message("msg-timeout", DURATION, "time a consumer has for a message before it is requeued")
    ] = MINUTE_NS
    max_msg_timeout_ns: Annotated[
        int, _message("max-msg-timeout", DURATION, "longest time a consumer may ask for, touches included")
    ] = 15 * MINUTE_NS
    max_req_timeout_ns: Annotated[
        int, _message("max-req-timeout", DURATION, "longest delay of a requeued or deferred message")
    ] = HOUR_NS
    max_msg_size: Annotated[int, _message("max-msg-size", INT, "largest message in bytes", POSITIVE)] = (
        1_048_576
    )
    max_attempts: Annotated[
        int,
        _message(
            "max-attempts",
            INT,
            "deliveries after which a message that comes back once more moves to TOPIC.CHANNEL.dead; "
            "0 for any number",
            NOT_NEGATIVE,
        ),
    ] = 0
    max_body_size: Annotated[
        int, _message("max-body-size", INT, "largest body of one command in bytes, such as an MPUB", POSITIVE)
    ] = 5_242_880

    max_heartbeat_interval_ns: Annotated[
        int, _client("max-heartbeat-interval", DURATION, "longest heartbeat interval a client may choose")
    ] = 60 * SECOND_NS
    max_rdy_count: Annotated[
        int, _client("max-rdy-count", INT, "most messages a consumer may have in flight (RDY)")
    ] = 2_500
    max_output_buffer_size: Annotated[
        int, _client("max-output-buffer-size", INT, "largest output buffer a client may choose, in bytes")
    ] = 65_536
    max_output_buffer_timeout_ns: Annotated[
        int,
        _client("max-output-buffer-timeout", DURATION, "longest time between flushes a client may choose"),
    ] = 30 * SECOND_NS
    min_output_buffer_timeout_ns: Annotated[
        int,
        _client("min-output-buffer-timeout", DURATION, "shortest time between flushes a client may choose"),
    ] = 25 * MILLISECOND_NS
    output_buffer_timeout_ns: Annotated[
        int,
        _client(
            "output-buffer-timeout", DURATION, "time between flushes when a client chooses none", POSITIVE
        ),
    ] = 250 * MILLISECOND_NS
    max_channel_consumers: Annotated[
        int, _client("max-channel-consumers", INT, "consumers of one channel on this node; 0 for any number")
    ] = 0

    tls_cert: Annotated[
        str, _tls("tls-cert", STRING, "path of the certificate (PEM); with --tls-key it switches TLS on")
    ] = ""
    tls_key: Annotated[str, _tls("tls-key", STRING, "path of the certificate's key (PEM)")] = ""
    tls_client_auth_policy: Annotated[
        str,
        _tls(
            "tls-client-auth-policy",
            STRING,
            "ask clients for a certificate: require (any), or require-verify (signed by --tls-root-ca-file); "
            "implies --tls-required",
        ),
    ] = ""
    tls_root_ca_file: Annotated[
        str,
        _tls(
            "tls-root-ca-file",
            STRING,
            "path of certificates (PEM) to trust, of clients and of the auth server",
        ),
    ] = ""
    tls_required: Annotated[
        TLSRequired,
        _tls("tls-required", TLS_REQUIRED, "refuse clients without TLS; tcp-https leaves plain HTTP open"),
    ] = TLSRequired.FALSE
    tls_min_version: Annotated[
        TLSVersion, _tls("tls-min-version", TLS_MIN_VERSION, "oldest version of TLS")
    ] = TLSVersion.TLS1_2
    deflate: Annotated[
        bool, _tls("deflate", BOOL, "let clients compress with deflate", go_field="DeflateEnabled")
    ] = True
    max_deflate_level: Annotated[
        int,
        _tls(
            "max-deflate-level",
            INT,
            "strongest deflate level a client may choose; higher costs more CPU",
            Limit(lambda value: 1 <= value <= 9, "must be [1,9]"),
        ),
    ] = 6
    snappy: Annotated[
        bool, _tls("snappy", BOOL, "let clients compress with snappy", go_field="SnappyEnabled")
    ] = True

    auth_http_addresses: Annotated[
        tuple[str, ...],
        _auth(
            "auth-http-address",
            STRING_LIST,
            "host:port or URL of an auth server; may be given several times, and makes clients authenticate",
            key="auth_http_addresses",
        ),
    ] = ()
    auth_http_request_method: Annotated[
        str,
        _auth(
            "auth-http-request-method", STRING, "how to ask the auth server: post, or get (secret in the URL)"
        ),
    ] = "post"
    http_auth: Annotated[
        HttpAuth,
        _auth(
            "http-auth",
            HTTP_AUTH,
            "with an auth server, whether the HTTP API needs permissions too; off leaves it open as in NSQ",
        ),
    ] = HttpAuth.ON
    http_client_connect_timeout_ns: Annotated[
        int, _auth("http-client-connect-timeout", DURATION, "time to connect to an auth server or nsqlookupd")
    ] = 2 * SECOND_NS
    http_client_request_timeout_ns: Annotated[
        int, _auth("http-client-request-timeout", DURATION, "time for a whole request to them")
    ] = 5 * SECOND_NS

    statsd_address: Annotated[
        str, _statsd("statsd-address", STRING, "UDP host:port of a statsd daemon to push statistics to")
    ] = ""
    statsd_interval_ns: Annotated[
        int, _statsd("statsd-interval", DURATION, "time between pushes; more than 1s when pushing")
    ] = MINUTE_NS
    statsd_mem_stats: Annotated[bool, _statsd("statsd-mem-stats", BOOL, "push figures about memory too")] = (
        True
    )
    statsd_prefix: Annotated[str, _statsd("statsd-prefix", STRING, "prefix of the keys; %s is this host")] = (
        "nsq.%s"
    )
    statsd_udp_packet_size: Annotated[
        int, _statsd("statsd-udp-packet-size", INT, "largest payload of one datagram in bytes")
    ] = 508
    statsd_exclude_ephemeral: Annotated[
        bool, _statsd("statsd-exclude-ephemeral", BOOL, "leave #ephemeral topics and channels out")
    ] = False
    e2e_processing_latency_percentiles: Annotated[
        tuple[float, ...],
        _statsd(
            "e2e-processing-latency-percentile",
            FLOAT_LIST,
            "quantiles in (0, 1] of the time from publish to finish to track, such as 0.99,0.5",
            key="e2e_processing_latency_percentiles",
        ),
    ] = ()
    e2e_processing_latency_window_time_ns: Annotated[
        int, _statsd("e2e-processing-latency-window-time", DURATION, "time over which they are taken")
    ] = 10 * MINUTE_NS

    spin_ns: Annotated[
        int,
        _tuning(
            "spin",
            DURATION,
            "time to poll for the next request before sleeping while requests come in quick succession; "
            "0 for never",
            NOT_NEGATIVE,
        ),
    ] = 100 * MICROSECOND_NS
    queue_scan_worker_pool_max: Annotated[
        int, _tuning("queue-scan-worker-pool-max", INT, "no effect, accepted for compatibility")
    ] = 4
    queue_scan_selection_count: Annotated[
        int, _tuning("queue-scan-selection-count", INT, "no effect, accepted for compatibility")
    ] = 20
    topology_region: Annotated[str, _tuning("topology-region", STRING, "region this node is in")] = ""
    topology_zone: Annotated[str, _tuning("topology-zone", STRING, "zone this node is in")] = ""
    enable_experiment: Annotated[
        tuple[str, ...],
        _tuning(
            "enable-experiment",
            STRING_LIST,
            "switch an experiment on: topology-aware-consumption; may be repeated",
        ),
    ] = ()


def validate(options: NsqdOptions) -> NsqdOptions:
    """The options with what follows from others filled in; ConfigurationError for the first that cannot work.

    The order and the texts are NSQ's, then come the checks that only we make.
    """
    if not options.tcp_address:
        raise ConfigurationError("tcp-address", "", "--tcp-address must not be empty")
    check_limits(options, "max_deflate_level")
    check_limits(options, "node_id")
    if options.tls_client_auth_policy and options.tls_required is TLSRequired.FALSE:
        options = msgspec.structs.replace(options, tls_required=TLSRequired.TRUE)
    _check_tls(options)
    _check_lookupd_tls(options)
    method = options.auth_http_request_method
    if method not in ("post", "get"):
        reason = "--auth-http-request-method must be post or get"
        raise ConfigurationError("auth-http-request-method", method, reason)
    for quantile in options.e2e_processing_latency_percentiles:
        if not 0 < quantile <= 1:
            reason = f"invalid E2E processing latency percentile: {go_float(quantile)}"
            raise ConfigurationError("e2e-processing-latency-percentile", quantile, reason)
    check_limits(options)
    RetentionPolicies(Kept(), options.retention_policies)
    if options.statsd_address and options.statsd_interval_ns <= SECOND_NS:
        reason = "--statsd-interval must be greater than 1s"
        raise ConfigurationError("statsd-interval", options.statsd_interval_ns, reason)
    return options


def _check_tls(options: NsqdOptions) -> None:
    check_key_pair(options)
    if options.tls_required and not options.tls_cert:
        reason = "cannot require TLS client connections without TLS key and cert"
        raise ConfigurationError("tls-required", options.tls_required, reason)


def _check_lookupd_tls(options: NsqdOptions) -> None:
    values = (options.lookupd_tls_cert, options.lookupd_tls_key, options.lookupd_tls_root_ca_file)
    flags = ("lookupd-tls-cert", "lookupd-tls-key", "lookupd-tls-root-ca-file")
    given = [flag for flag, value in zip(flags, values, strict=True) if value]
    if given and not options.lookupd_tls:
        raise ConfigurationError(given[0], "", f"--{given[0]} needs --lookupd-tls")
    if bool(options.lookupd_tls_cert) != bool(options.lookupd_tls_key):
        missing = flags[1] if options.lookupd_tls_cert else flags[0]
        raise ConfigurationError(missing, "", f"failed to build TLS config - --{missing} is not set")
