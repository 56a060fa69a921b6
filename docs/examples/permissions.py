"""Asks MoonBridge for permissions, changes and watches them, as a backend's plugin would.

    pip install grpcio grpcio-tools
    mkdir stubs
    python -m grpc_tools.protoc -I proto --python_out=stubs --grpc_python_out=stubs moonbridge/v1/permissions.proto moonbridge/v1/resources.proto
    PYTHONPATH=stubs python docs/examples/permissions.py check Ada moonbridge.server.vip
    PYTHONPATH=stubs python docs/examples/permissions.py watch

docs/permissions.md describes the API; testing/tests/permissions/python.rs runs this file.
"""

import argparse
import sys
import time

import grpc
from moonbridge.v1 import permissions_pb2 as api
from moonbridge.v1 import permissions_pb2_grpc as service
from moonbridge.v1 import resources_pb2 as resources

# Every call has a deadline: a plugin that waits for ever hangs its server. A watch has none, it lasts.
DEADLINE = 5
LONGEST_PAUSE = 10


class Permissions:
    """The control plane's PermissionService, with a token."""

    def __init__(self, control, token=None, ca=None):
        # A watch that only listens notices a dead connection by these.
        alive = [("grpc.keepalive_time_ms", 20_000), ("grpc.keepalive_timeout_ms", 10_000)]
        if ca is None:
            self.channel = grpc.insecure_channel(control, alive)
        else:
            self.channel = grpc.secure_channel(control, grpc.ssl_channel_credentials(ca), alive)
        self.calls = service.PermissionServiceStub(self.channel)
        self.metadata = [("authorization", "Bearer " + token)] if token else []

    def check(self, player, permissions, contexts=()):
        request = api.CheckRequest(player=player, permissions=permissions, contexts=contexts)
        return self.calls.Check(request, metadata=self.metadata, timeout=DEADLINE)

    def explain(self, player, permission, contexts=()):
        request = api.ExplainRequest(player=player, permission=permission, contexts=contexts)
        return self.calls.Explain(request, metadata=self.metadata, timeout=DEADLINE)

    def set(self, player, key, value=True, contexts=(), expiry=0):
        node = resources.PermissionNode(key=key, value=value, contexts=contexts, expiry=expiry)
        edit = api.PermissionEdit(set=api.SetNode(node=node))
        request = api.ChangeUserRequest(player=player, edits=[edit])
        return self.calls.ChangeUser(request, metadata=self.metadata, timeout=DEADLINE)

    def watch(self, players=(), lost=lambda error: None):
        """Every change, for ever. `stands` comes at the beginning, and again after each interruption: read anew what you keep."""
        pause = 0.1
        while True:
            try:
                for change in self.calls.Watch(api.WatchRequest(players=players), metadata=self.metadata):
                    pause = 0.1
                    yield change
            except grpc.RpcError as error:
                if error.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.INVALID_ARGUMENT):
                    raise
                lost(error)
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


def word(answer):
    return resources.PermissionAnswer.Name(answer).removeprefix("PERMISSION_ANSWER_").lower()


def shown(node):
    where = " ".join(f"{context.key}={context.value}" for context in node.contexts)
    until = f" until {node.expiry}" if node.expiry else ""
    return f"{node.key} = {str(node.value).lower()}{f' ({where})' if where else ''}{until}"


def told(change):
    """A line for a change. A plugin would throw away what it keeps of this user; at anything else, of everybody."""
    kind = change.WhichOneof("change")
    value = getattr(change, kind) if kind else None
    what = {
        "stands": lambda: "the watch stands",
        "user": lambda: f"user {value.uuid} {value.username}: {', '.join(map(shown, value.nodes)) or 'no nodes'}",
        "removed_user": lambda: f"user {value}: nothing stored any more",
        "unreadable_user": lambda: f"user {value}: what is stored cannot be read, and is void until it is set anew",
        "group": lambda: f"group {value.name}: {', '.join(map(shown, value.nodes)) or 'no nodes'}",
        "removed_group": lambda: f"group {value}: removed",
        "track": lambda: f"track {value.name}: {' '.join(value.groups)}",
        "removed_track": lambda: f"track {value}: removed",
        "settings": lambda: "the settings",
        "imported": lambda: "an import: anything may have changed",
    }
    return f"{change.revision} {what[kind]() if kind in what else 'something this program does not know: take it for an import'}"


def context(text):
    key, equals, value = text.partition("=")
    if not (key and equals and value):
        raise argparse.ArgumentTypeError(f"expected KEY=VALUE, got {text!r}")
    return resources.PermissionContext(key=key, value=value)


def arguments():
    parser = argparse.ArgumentParser(description="Asks MoonBridge for permissions.")
    parser.add_argument("--control", default="127.0.0.1:25590", help="a replica, HOST:PORT; several: ipv4:ADDRESS:PORT,ADDRESS:PORT")
    parser.add_argument("--token-file", help="from: moonbridge token create NAME --role viewer > FILE")
    parser.add_argument("--ca", help="the authority of the control plane's certificate (PEM); without it the connection is plaintext")
    verbs = parser.add_subparsers(dest="verb", required=True)
    check = verbs.add_parser("check")
    check.add_argument("player")
    check.add_argument("permissions", nargs="+")
    explain = verbs.add_parser("explain")
    explain.add_argument("player")
    explain.add_argument("permission")
    change = verbs.add_parser("set", help="needs a token of the role admin")
    change.add_argument("player")
    change.add_argument("key")
    change.add_argument("value", nargs="?", default="true", choices=["true", "false"])
    change.add_argument("--seconds", type=int, help="how long it is to hold")
    for verb in (check, explain, change):
        verb.add_argument("--context", type=context, action="append", default=[], metavar="KEY=VALUE")
    watch = verbs.add_parser("watch")
    watch.add_argument("players", nargs="*")
    return parser.parse_args()


def read(path, mode="r"):
    with open(path, mode) as file:
        return file.read()


def main():
    options = arguments()
    token = read(options.token_file).strip() if options.token_file else None
    ca = read(options.ca, "rb") if options.ca else None
    permissions = Permissions(options.control, token, ca)

    if options.verb == "check":
        answer = permissions.check(options.player, options.permissions, options.context)
        for permission, result in zip(options.permissions, answer.answers):
            print(f"{permission}: {word(result)}")
        print(f"primary group {answer.primary_group}, prefix {answer.prefix!r}")
    elif options.verb == "explain":
        answer = permissions.explain(options.player, options.permission, options.context)
        print(f"{options.permission}: {word(answer.answer)}, by {answer.matched_by}")
        if answer.HasField("node"):
            print(f"{' > '.join(answer.path)}: {shown(answer.node)}")
    elif options.verb == "set":
        expiry = int(time.time()) + options.seconds if options.seconds else 0
        state = permissions.set(options.player, options.key, options.value == "true", options.context, expiry)
        print(f"revision {state.revision}")
        for node in state.user.nodes:
            print(shown(node))
    else:
        lost = lambda error: print(f"lost ({error.code().name}): {error.details()}", flush=True)
        for change in permissions.watch(options.players, lost):
            print(told(change), flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
    except OSError as error:
        sys.exit(f"{error.filename}: {error.strerror}")
    except grpc.RpcError as error:
        # An error is no answer: whoever asks must not take it for one.
        sys.exit(f"{error.code().name}: {error.details()}")
