"""Moves a channel as its argument says, tells when that was answered, and waits to be killed."""

import sys
import time

from nsqlake.nsqd.core.seeking import SeekTarget
from nsqlake.nsqd.replay import message_id
from tests.nsqd.broker_on_disk import SECOND_NS, BrokerOnDisk


def main(path: str, deed: str) -> None:
    disk = BrokerOnDisk(path)
    channel, broker = disk.channel(), disk.broker
    base = disk.publish(*[b"x"] * 10)
    disk.publish(b"later", b"later", delay_ns=3600 * SECOND_NS)
    disk.consume(channel, 8)
    if deed == "seek":
        disk.run(broker.seek(channel, SeekTarget.at_offset(base + 5)))
    elif deed == "commit":
        disk.run(broker.commit(channel, base + 5))
    elif deed == "create":
        disk.channel(name="other", start=SeekTarget.at_offset(base + 5))
    elif deed == "cancel":
        disk.run(broker.cancel_deferred(channel, message_id(channel.topic, base + 11)))
    print(base, flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
