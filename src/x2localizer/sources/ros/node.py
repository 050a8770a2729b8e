"""A node of ROS 2, where there is an rclpy: one for the process, shared by the source and the sink."""

from __future__ import annotations

import threading
from contextlib import suppress
from importlib import import_module
from typing import Any

from x2localizer.errors import UserError

_LOCK = threading.Lock()
_shared: RosNode | None = None


class RosNode:
    """A node that handles its messages in a thread of its own; take one with :func:`take_node`."""

    def __init__(self) -> None:
        self.rclpy = ros_module("rclpy")
        self._started = not self.rclpy.ok()
        if self._started:
            self.rclpy.init()
        self.node: Any = self.rclpy.create_node("x2localizer")
        self.users = 0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._spin, name="ROS node", daemon=True)
        self._thread.start()

    def _spin(self) -> None:
        while not self._ending.is_set() and self.rclpy.ok():
            self.rclpy.spin_once(self.node, timeout_sec=0.1)

    def end(self) -> None:
        """Stop the thread and destroy the node."""
        self._ending.set()
        self._thread.join(5.0)
        with suppress(Exception):  # ROS may be shut down already, by Ctrl-C
            self.node.destroy_node()
            if self._started:
                self.rclpy.shutdown()


def take_node() -> RosNode:
    """The node of this process; give it back with :func:`give_back`."""
    global _shared  # noqa: PLW0603 - ROS has one context for a process
    with _LOCK:
        if _shared is None:
            _shared = RosNode()
        _shared.users += 1
        return _shared


def give_back(node: RosNode) -> None:
    """Let go of the node; with its last user it ends."""
    global _shared  # noqa: PLW0603
    with _LOCK:
        node.users -= 1
        if node.users == 0:
            node.end()
            _shared = None


def ros_module(name: str) -> Any:
    """A module of ROS 2; an error where there is none, as it does not come with pip."""
    try:
        return import_module(name)
    except ImportError as problem:
        raise UserError(
            f"ROS 2 is not set up here: there is no {name}.",
            "Start it in a shell of ROS 2 (source /opt/ros/*/setup.bash), or use a bag: drive.mcap, rosbag:out.",
        ) from problem
