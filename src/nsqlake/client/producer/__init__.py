"""The producer: publishes over one or more nsqd, and tells what became of each publish."""

from nsqlake.client.producer.encoding import json_body, text_body
from nsqlake.client.producer.hooks import ProducerHooks
from nsqlake.client.producer.node_choice import Strategy
from nsqlake.client.producer.producer import Producer
from nsqlake.client.producer.stats import NodeStats, ProducerStats

__all__ = [
    "NodeStats",
    "Producer",
    "ProducerHooks",
    "ProducerStats",
    "Strategy",
    "json_body",
    "text_body",
]
