"""ROS 2 without ROS: bags (rosbag2, MCAP) as recorded, and a node where there is an rclpy."""

from x2localizer.sources.ros.bag import Bag, Topic, bag_at

__all__ = ["Bag", "Topic", "bag_at"]
