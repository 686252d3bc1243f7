"""Which nodes a streaming sink writes to, kept with its checkpoint.

A batch that is run again must find its partitions on the nodes that may have them already, so the list is
fixed when the query first runs.
"""

import json
from collections.abc import Sequence

import pyarrow as pa
from pyarrow import fs

from nsqlake.spark.errors import OptionError
from nsqlake.spark.logs import find_nodes
from nsqlake.spark.options import Access

__all__ = ["fixed_nodes", "node_of"]

FILE_NAME = "nsq-sink-nodes.json"


def fixed_nodes(checkpoint: str, access: Access) -> list[str]:
    """The list of the checkpoint; if there is none, the nodes there are now become it.

    Nodes that are named by the user have to be those; what nsqlookupd says may change at any time.
    """
    files, directory = _open(checkpoint)
    path = f"{directory}/{FILE_NAME}"
    if files.get_file_info(path).type == fs.FileType.File:
        with files.open_input_file(path) as file:
            kept: list[str] = json.loads(file.read())["nodes"]
        if access.nsqd and sorted(kept) != sorted(access.nsqd):
            reason = f"this checkpoint writes to {','.join(kept)}: an exactly-once query keeps its nodes"
            raise OptionError("nsqd", ",".join(access.nsqd), reason)
        return kept
    nodes = sorted(find_nodes(access))
    files.create_dir(directory, recursive=True)
    with files.open_output_stream(path) as file:
        file.write(json.dumps({"nodes": nodes}).encode())
    return nodes


def _open(checkpoint: str) -> tuple[fs.FileSystem, str]:
    if not checkpoint:
        raise OptionError("checkpointLocation", None, "is needed to publish exactly once")
    try:
        files, directory = fs.FileSystem.from_uri(checkpoint)
    except (pa.ArrowInvalid, OSError) as error:
        reason = f"cannot be used for delivery=exactly-once: {error}"
        raise OptionError("checkpointLocation", checkpoint, reason) from error
    return files, directory.rstrip("/")


def node_of(part: int, nodes: Sequence[str]) -> str:
    """The node that gets a partition, always the same one."""
    return nodes[part % len(nodes)]
