"""Spark finds the data source `kafkalog` by the name of this module."""

from kafkalog_core.spark.source import KafkaLog as DefaultSource

__all__ = ["DefaultSource"]
