"""JSON lines: commands come in on stdin, events go out on stdout. Shared by player.py and backend.py.

A script ends when its stdin does (the test that started it is gone) and, whatever happens, after `lifetime` seconds.
"""

import json
import os
import sys

from twisted.internet import reactor, stdio
from twisted.protocols.basic import LineReceiver

MAX_LIFETIME = 1800


def options(defaults):
    """The options: the one argument, a JSON object, over the defaults."""
    return {**defaults, **json.loads(sys.argv[1] if len(sys.argv) > 1 else "{}")}


def emit(event, **fields):
    """Writes one event."""
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


class Commands(LineReceiver):
    """Calls the command named by each line."""

    delimiter = b"\n"
    MAX_LENGTH = 4 * 1024 * 1024

    def __init__(self, commands):
        self.commands = commands

    def lineReceived(self, text):
        try:
            line = json.loads(text)
            self.commands[line["do"]](line)
        except Exception as error:  # whatever went wrong, the test is told
            emit("error", message=f"command: {error!r}")

    def connectionLost(self, reason=None):
        leave(0)


def leave(code):
    """Ends the process at once: twisted's own end waits for connections."""
    sys.stdout.flush()
    os._exit(code)


def serve(commands, lifetime):
    """Reads commands until stdin ends."""
    stdio.StandardIO(Commands(commands))
    reactor.callLater(min(lifetime or 600, MAX_LIFETIME), leave, 3)
    reactor.run(installSignalHandlers=False)


def plain(value):
    """The text of a chat component, colours and clicks left out."""
    if isinstance(value, dict):
        own = str(value.get("text", "")) + str(value.get("translate", ""))
        return own + "".join(plain(part) for part in value.get("extra", []))
    if isinstance(value, list):
        return "".join(plain(part) for part in value)
    return str(value)


def component(raw):
    """The text of a chat component as it came on the wire; a plain string is shown as it is."""
    try:
        return plain(json.loads(raw))
    except ValueError:
        return raw


def raw_frame(protocol, payload):
    """Sends one frame's id and payload."""
    protocol.transport.write(protocol.buff_type.pack_packet(payload, -1))


def pack_plugin(buff, channel, data):
    """A plugin message of 1.7: the data's length is an i16."""
    return buff.pack_string(channel) + buff.pack("h", len(data)) + data
