"""`transactions`: which transactions are open, what they hold back, and who will end them.

`open_transactions` reads the logs of a partition, `coordinator` the records of `__transaction_state`; `judgement`
joins the two as KIP-664 does, and `transactions` makes rows of them.
"""
