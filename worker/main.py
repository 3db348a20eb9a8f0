"""The app for those who know Faust's own command: `faust -A worker.main agents`.

Importing this module reads the settings and builds an app; nothing else does. `apportion run` starts the
same one.
"""

from worker.settings import load_settings
from worker.stream.app import create_app

app = create_app(load_settings())
