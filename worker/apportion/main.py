"""The app for Faust's own command: `faust -A apportion.main agents`.

Importing this module reads the settings and builds the app that `apportion run` starts.
"""

from apportion.operations.gc_tuning import collect_seldom
from apportion.settings import load_settings
from apportion.stream.faust_app.app import create_app

collect_seldom()
app = create_app(load_settings())
