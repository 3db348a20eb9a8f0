"""`python -m worker` is `apportion`."""

from worker.cli import main

main()
