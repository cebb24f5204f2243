import os
import threading

chdir = home
workers = 1
worker_class = 'sync'
control_socket_disable = True
# A worker that was stopped on purpose, or starved by a busy machine, is not to be replaced.
timeout = 0

os.environ['OS_KEYSTONE_CONFIG_DIR'] = home
os.environ['PYTHONWARNINGS'] = 'ignore'

# The worker must not outlive the server, which may be killed with SIGKILL: then the write end of this pipe closes, and
# the worker sees the end of it at once. gunicorn's own look at the parent comes only every 15 seconds.
_alive, _held = os.pipe()


def post_fork(server, worker):
    os.close(_held)
    with open(os.path.join(home, 'worker.pid'), 'w') as pid:
        pid.write(str(os.getpid()))

    def end_with_the_server():
        os.read(_alive, 1)
        os._exit(0)

    threading.Thread(target=end_with_the_server, daemon=True).start()
