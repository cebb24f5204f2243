import sys

# Keystone's settings must not be read from the arguments of gunicorn.
sys.argv = ['keystone']

from keystone.common.sql import core  # noqa: E402

# As on the databases that people run it on. Without it rows stay behind that SQLite's next ids collide with, and the
# next application credential after a role was deleted is refused as a duplicate.
core.enable_sqlite_foreign_key()

from keystone.wsgi.api import application  # noqa: E402,F401
