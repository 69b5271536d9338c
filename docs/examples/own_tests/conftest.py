"""The fixture `chong_node`."""

pytest_plugins = ["chong.worker.testing"]
