"""Asks more often than a GitLab allows: python-gitlab waits as long as it is told to and asks again.

Takes the address and a token. Says how long it took, in seconds.
"""

import sys
import time

import gitlab

client = gitlab.Gitlab(sys.argv[1], private_token=sys.argv[2])
begun = time.monotonic()
# Two windows let four of them through.
for _ in range(5):
    client.auth()
print(time.monotonic() - begun)

impatient = gitlab.Gitlab(sys.argv[1], private_token=sys.argv[2])
for _ in range(10):
    try:
        impatient.http_get("/user", obey_rate_limit=False)
    except gitlab.GitlabHttpError as error:
        assert error.response_code == 429, error.response_code
        assert error.response_body == b"Retry later\n"
        break
else:
    raise AssertionError("never limited")
