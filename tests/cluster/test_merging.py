from nsqlake.cluster.lookupd_answers import Node, Producer
from nsqlake.cluster.merging import (
    merge_channels,
    merge_names,
    merge_nodes,
    merge_producers,
    merge_topics,
)
from nsqlake.cluster.nsqd_answers import ChannelStats, ClientStats, TopicStats


def producer(host: str, tcp_port: int = 4150, **fields: object) -> Producer:
    return Producer(broadcast_address=host, tcp_port=tcp_port, **fields)


def test_names_are_united_and_sorted() -> None:
    assert merge_names([["b", "a"], [], ["c", "b"]]) == ["a", "b", "c"]


def test_producer_that_several_name_counts_once_and_the_first_is_believed() -> None:
    lists = [[producer("a", version="1"), producer("b")], [producer("a", version="2"), producer("a", 5)]]

    merged = merge_producers(lists)

    assert [(one.tcp_address, one.version) for one in merged] == [
        ("a:4150", "1"),
        ("b:4150", ""),
        ("a:5", ""),
    ]


def test_producer_without_an_address_is_left_out() -> None:
    assert merge_producers([[producer(""), producer("a", 0)]]) == []


def test_node_has_a_remote_address_for_each_lookupd_that_knows_it() -> None:
    node, same = (
        Node(hostname="n", broadcast_address="a", tcp_port=1, remote_address=address)
        for address in ("10.0.0.1:9", "10.0.0.1:8")
    )
    other = Node(hostname="m", broadcast_address="b", tcp_port=1, remote_address="10.0.0.2:7")

    merged = merge_nodes([("l1:4161", [node]), ("l2:4161", [other, same])])

    assert [entry.node for entry in merged] == [other, node]
    assert merged[1].remote_addresses == ["l1:4161/10.0.0.1:9", "l2:4161/10.0.0.1:8"]


def test_every_count_of_a_channel_is_added_up() -> None:
    names = [name for name in ChannelStats.__struct_fields__ if name.endswith(("count", "depth"))]
    one = ChannelStats(channel_name="c", **dict.fromkeys(names, 1))
    two = ChannelStats(channel_name="c", **dict.fromkeys(names, 10))

    merged = merge_channels([one, two])

    assert {name: getattr(merged, name) for name in names} == dict.fromkeys(names, 11)
    assert merged.channel_name == "c"


def test_channel_is_paused_where_any_node_paused_it_and_has_the_clients_of_all() -> None:
    clients = [ClientStats(client_id="a"), ClientStats(client_id="b")]
    parts = [ChannelStats(clients=clients[:1], paused=True), ChannelStats(clients=clients[1:])]

    merged = merge_channels(parts)

    assert merged.paused
    assert merged.clients == clients
    assert not merge_channels([ChannelStats()]).paused


def test_memory_depth_is_what_is_not_on_disk() -> None:
    merged = merge_channels([ChannelStats(depth=5, backend_depth=2), ChannelStats(depth=1)])

    assert merged.memory_depth == 4


def test_topic_is_added_up_with_its_channels() -> None:
    one = TopicStats(
        topic_name="t", depth=1, message_count=2, channels=[ChannelStats(channel_name="b", depth=1)]
    )
    two = TopicStats(
        topic_name="t",
        depth=10,
        message_bytes=7,
        paused=True,
        channels=[ChannelStats(channel_name="b", depth=10), ChannelStats(channel_name="a", depth=5)],
    )

    merged = merge_topics([one, two])

    assert (merged.topic_name, merged.depth, merged.message_count, merged.message_bytes) == ("t", 11, 2, 7)
    assert [(channel.channel_name, channel.depth) for channel in merged.channels] == [("a", 5), ("b", 11)]
    assert merged.paused
    assert one.channels[0].depth == 1


def test_nothing_adds_up_to_nothing() -> None:
    assert merge_channels([]).depth == 0
    assert merge_topics([]).channels == []
