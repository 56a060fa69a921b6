"""A server of protocol 4 or 5 (as the player asks) over quarry: options, events and commands are those of ../backend.js."""

import json
import logging
import time

from quarry.net import auth
from quarry.net.server import ServerFactory, ServerProtocol
from twisted.internet import reactor, task

from lines import emit, options, pack_plugin, raw_frame, serve

OWN = options({"name": "backend", "port": 0, "dimension": 0, "entityId": 1, "gameMode": 0, "keepAliveMs": 2000, "tab": []})


class Connection(ServerProtocol):
    """One player's connection."""

    conn = 0
    joined = False
    loop = None

    def setup(self):
        self.factory.count += 1
        self.conn = self.factory.count
        self.asked = {}

    def said(self, event, **fields):
        emit(event, conn=self.conn, **fields)

    def connection_made(self):
        super().connection_made()
        self.factory.connections.add(self)
        self.said("connection", address=self.remote_addr.host)
        self.misbehaves("accept")

    def misbehaves(self, place):
        """Does at this place of the login what the options say; true: go no further."""
        if OWN.get("garbage") == place:
            self.transport.write(b"\xff" * 64)  # a length that never ends
        if OWN.get("close") == place:
            self.transport.abortConnection()
        return place in (OWN.get("garbage"), OWN.get("close"), OWN.get("stall"))

    def packet_handshake(self, buff):
        if OWN.get("stall") == "accept":
            return buff.discard()
        super().packet_handshake(buff)
        mode = {"status": 1, "login": 2}[self.protocol_mode]
        self.said("handshake", host=self.connect_host, port=self.connect_port, protocol=self.protocol_version, next=mode)
        # What BungeeCord's servers find in it; BungeeGuard's tokens are npm's to look at.
        parts = self.connect_host.split("\0")
        if len(parts) in (3, 4):
            host, address, uuid = parts[:3]
            properties = json.loads(parts[3]) if parts[3:] else []
            self.said("forwarded", host=host, address=address, uuid=uuid, properties=properties)

    def packet_login_start(self, buff):
        buff.save()
        self.said("login_start", name=buff.unpack_string())
        buff.restore()
        if OWN.get("refuse"):
            buff.discard()
            return self.close(OWN["refuse"])
        if self.misbehaves("login"):
            return buff.discard()
        super().packet_login_start(buff)

    def player_joined(self):
        super().player_joined()  # sends Login Success
        # quarry fires this deferred half a second on, and fails if somebody left meanwhile.
        self.said("login", name=self.display_name, uuid=self.uuid.to_hex())
        if self.misbehaves("success"):
            return
        pack = self.buff_type
        entity = self.factory.next_entity
        self.factory.next_entity += 1
        self.send_packet("join_game", pack.pack("iBbBB", entity, OWN["gameMode"], OWN["dimension"], 1, 20), pack.pack_string("default"))
        self.send_packet("spawn_position", pack.pack("iii", 8, 64, 8))
        self.send_packet("player_abilities", pack.pack("Bff", 0, 0.05, 0.1))
        for name in OWN["tab"]:
            self.tab(name, True)
        if OWN.get("objective"):
            self.send_packet("scoreboard_objective", pack.pack_string(OWN["objective"]), pack.pack_string(OWN["name"]), pack.pack("b", 0))
            self.send_packet("display_scoreboard", pack.pack("b", 1), pack.pack_string(OWN["objective"]))
        self.send_packet("player_position_and_look", pack.pack("dddff?", 8.5, 65.62, 8.5, 0, 0, True))
        self.joined = True
        self.loop = task.LoopingCall(self.ask)
        self.loop.start(OWN["keepAliveMs"] / 1000)
        if OWN.get("kickAfterMs"):
            reactor.callLater(OWN["kickAfterMs"] / 1000, self.close, OWN.get("kickReason", "kicked"))
        self.said("joined", name=self.display_name, entityId=entity)

    def ask(self):
        if not self.factory.keep_alives:
            return
        if "keepAliveBase" in OWN:
            ident = OWN["keepAliveBase"] + self.factory.asked
        else:
            ident = int(time.time() * 1000) & 0x7FFFFFFF
        self.factory.asked += 1
        self.asked[ident] = True
        self.said("keep_alive_sent", id=ident)
        self.send_packet("keep_alive", self.buff_type.pack("i", ident))

    def say(self, text):
        if not self.closed:
            self.send_packet("chat_message", self.buff_type.pack_chat(text))
            self.said("said", text=text)

    def tab(self, name, online):
        self.send_packet("player_list_item", self.buff_type.pack_string(name), self.buff_type.pack("?h", online, 20))

    def packet_keep_alive(self, buff):
        ident = buff.unpack("i")
        self.said("keep_alive", id=ident, known=self.asked.pop(ident, False))

    def packet_chat_message(self, buff):
        self.said("chat", name=self.display_name, text=buff.unpack_string())

    def packet_client_settings(self, buff):
        locale = buff.unpack_string()
        view, chat, colours, difficulty, cape = buff.unpack("bb?B?")
        self.said("settings", name=self.display_name, locale=locale, viewDistance=view)

    def packet_plugin_message(self, buff):
        channel = buff.unpack_string()
        buff.unpack("h")
        self.said("plugin", name=self.display_name, channel=channel, hex=buff.read().hex())

    def packet_unhandled(self, buff, name):
        buff.discard()
        self.said("packet", packet=name)

    def protocol_error(self, err):
        self.said("error", message=str(err))
        super().protocol_error(err)

    def connection_lost(self, reason=None):
        super().connection_lost(reason)
        self.factory.connections.discard(self)
        if self.loop and self.loop.running:
            self.loop.stop()
        text = reason.getErrorMessage() if reason else ""
        self.said("end", name=self.display_name, joined=self.joined, unanswered=len(self.asked), reason=text)


class Backend(ServerFactory):
    """All connections."""

    protocol = Connection
    log_level = logging.CRITICAL
    online_mode = "sessionServer" in OWN
    max_players = 1000
    count = 0
    asked = 0
    keep_alives = True

    def __init__(self):
        super().__init__()
        self.motd = OWN["name"]
        if self.online_mode:
            auth.SESSION_SERVER = OWN["sessionServer"].encode() + b"/session/minecraft/"
        self.connections = set()
        self.next_entity = OWN["entityId"]

    def each(self, line, act):
        for connection in list(self.connections):
            if connection.joined and line.get("player") in (None, connection.display_name):
                act(connection)


def main():
    logging.disable(logging.CRITICAL)
    factory = Backend()

    def keep_alives(value):
        factory.keep_alives = value

    def drop(line):
        for connection in list(factory.connections):
            connection.transport.abortConnection()

    def each(act):
        return lambda line: factory.each(line, lambda connection: act(connection, line))

    def plugin(connection, channel, data):
        connection.send_packet("plugin_message", pack_plugin(connection.buff_type, channel, data))

    def listen():
        port = reactor.listenTCP(OWN["port"], factory, interface="127.0.0.1")
        factory.listener = port
        emit("listening", port=port.getHost().port)

    def change(line):
        OWN.update(line["options"])
        emit("set")

    reactor.callWhenRunning(listen)
    serve(
        {
            "chat": each(lambda c, line: c.say(line["text"])),
            "kick": each(lambda c, line: c.close(line["reason"])),
            "raw": each(lambda c, line: raw_frame(c, bytes.fromhex(line["hex"]))),
            "bytes": each(lambda c, line: c.transport.write(bytes.fromhex(line["hex"]))),
            "plugin": each(lambda c, line: plugin(c, line["channel"], bytes.fromhex(line["hex"]))),
            "register": each(lambda c, line: plugin(c, "REGISTER", "\0".join(line["channels"]).encode())),
            "tab": each(lambda c, line: c.tab(line["name"], line["online"])),
            "pause_keep_alive": lambda line: keep_alives(False),
            "resume_keep_alive": lambda line: keep_alives(True),
            "drop": drop,
            "set": change,
            "stop_listening": lambda line: factory.listener.stopListening(),
            "quit": lambda line: reactor.stop(),
        },
        OWN.get("lifetime"),
    )


main()
