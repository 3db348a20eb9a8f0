"""Other programs that do a worker's reading and writing: a file each, and a row in `benchmarks.shell.rows`.

Each reads a request, decodes its JSON and sends one answer and one decision of about the sizes of ours; where
it keeps state it counts a key's requests, durably. All are started alike:

    python -m benchmarks.shell.peers.NAME BROKERS GROUP REQUESTS COMPOSED DECISIONS [VARIANT]
"""
