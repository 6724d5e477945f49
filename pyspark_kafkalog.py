"""Spark finds the data source `kafkalog` by the name of this module."""

from kafkalog_core.spark.source.reader import KafkaLog as DefaultSource

__all__ = ["DefaultSource"]
