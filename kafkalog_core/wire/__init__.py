"""Kafka's messages: their schemas as data, and one codec for requests, responses and records of Kafka's own topics.

A message is decoded to a `dict` by the names of its schema in snake_case. Fields that the version does not have get
their defaults, so a handler reads every version in the same way. `schemas` reads the table, `codec` makes a decoder and
an encoder for each message and version when they are first used, and `frames` adds the headers of requests and
responses.
"""
