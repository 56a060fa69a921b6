"""A player of protocol 4 or 5 over quarry: options, events and commands are those of ../player.js, plus the option `protocol`."""

import logging

from quarry.net import auth
from quarry.net.client import ClientFactory, ClientProtocol
from quarry.types.uuid import UUID
from twisted.internet import defer, reactor

from lines import component, emit, leave, options, pack_plugin, raw_frame, serve

OWN = options({"host": "127.0.0.1", "name": "quarry", "protocol": 5, "vanilla": True, "status": False})


class Player(ClientProtocol):
    """One connection; the factory keeps it as `player`."""

    answering = True

    def setup(self):
        self.factory.player = self

    def connection_made(self):
        emit("connected")
        super().connection_made()

    def send_packet(self, name, *data):
        # quarry always writes the address it dialled into the handshake.
        if name == "handshake" and OWN.get("virtualHost") is not None:
            mode = 1 if OWN["status"] else 2
            buff = self.buff_type
            data = [buff.pack_varint(self.protocol_version), buff.pack_string(OWN["virtualHost"]), buff.pack("H", OWN["port"]), buff.pack_varint(mode)]
        super().send_packet(name, *data)

    def status_response(self, data):
        emit("status", data=data)
        super().status_response(data)

    def packet_login_success(self, buff):
        uuid, name = buff.unpack_string(), buff.unpack_string()
        emit("login", uuid=uuid, name=name)
        self.switch_protocol_mode("play")
        self.player_joined()

    def packet_join_game(self, buff):
        entity, mode, dimension, difficulty, most = buff.unpack("iBbBB")
        level = buff.unpack_string()
        emit("join", entityId=entity, gameMode=mode, dimension=dimension, difficulty=difficulty, maxPlayers=most, levelType=level)
        if OWN["vanilla"]:
            pack = self.buff_type
            self.send_packet("client_settings", pack.pack_string("en_GB"), pack.pack("bb?B?", 10, 0, True, 2, True))
            self.send_packet("plugin_message", pack_plugin(pack, "MC|Brand", b"vanilla"))

    def packet_respawn(self, buff):
        dimension, difficulty, mode = buff.unpack("iBB")
        emit("respawn", dimension=dimension, difficulty=difficulty, gamemode=mode, levelType=buff.unpack_string())

    def packet_player_position_and_look(self, buff):
        x, y, z, yaw, pitch, _ = buff.unpack("dddff?")
        emit("position", x=x, y=y, z=z)
        if OWN["vanilla"]:
            self.send_packet("player_position_and_look", self.buff_type.pack("ddddff?", x, y - 1.62, y, z, yaw, pitch, True))

    def packet_chat_message(self, buff):
        raw = buff.unpack_string()
        emit("chat", text=component(raw), raw=raw)

    def packet_tab_complete(self, buff):
        emit("completed", matches=[buff.unpack_string() for _ in range(buff.unpack_varint())])

    def packet_keep_alive(self, buff):
        ident = buff.unpack("i")
        emit("keep_alive", id=ident)
        if self.answering:
            self.send_packet("keep_alive", self.buff_type.pack("i", ident))

    def packet_player_list_item(self, buff):
        name = buff.unpack_string()
        online, _ = buff.unpack("?h")
        emit("tab", name=name, online=online)

    def packet_plugin_message(self, buff):
        channel = buff.unpack_string()
        buff.unpack("h")
        emit("plugin", channel=channel, hex=buff.read().hex())

    def packet_login_disconnect(self, buff):
        raw = buff.unpack_string()
        emit("kick", phase=self.protocol_mode, text=component(raw), raw=raw)
        self.close()

    packet_disconnect = packet_login_disconnect

    def protocol_error(self, err):
        emit("error", message=str(err))
        super().protocol_error(err)

    def connection_lost(self, reason=None):
        super().connection_lost(reason)
        emit("end", reason=reason.getErrorMessage() if reason else "")
        if OWN["status"]:
            leave(0)


class Account(auth.Profile):
    """What a launcher gives to the client."""

    def __init__(self, online):
        super().__init__("client token", online["accessToken"], OWN["name"], UUID.from_hex(online["id"]))
        self.skip_join = online.get("skipJoin", False)
        auth.SESSION_SERVER = online["sessionServer"].encode() + b"/session/minecraft/"

    def join(self, digest, refresh=True):
        # A refresh would be asked of Mojang.
        return defer.succeed(None) if self.skip_join else super().join(digest, refresh=False)


class Players(ClientFactory):
    """Makes the one connection."""

    protocol = Player
    log_level = logging.CRITICAL
    connection_timeout = 30
    player = None

    def clientConnectionFailed(self, connector, reason):
        emit("error", message=reason.getErrorMessage())
        emit("end", reason="connect")


def main():
    logging.disable(logging.CRITICAL)
    factory = Players(Account(OWN["online"]) if OWN.get("online") else auth.OfflineProfile(OWN["name"]))
    factory.force_protocol_version = OWN["protocol"]
    factory.protocol_mode_next = "status" if OWN["status"] else "login"
    # Without a forced version quarry would ping first; `status` mode does not force one by itself.
    Player.protocol_version = OWN["protocol"]
    reactor.callWhenRunning(factory.connect, OWN["host"], OWN["port"])

    def send(name, *data):
        factory.player.send_packet(name, *data)

    def answering(value):
        factory.player.answering = value

    pack = factory.get_buff_type(OWN["protocol"])
    serve(
        {
            "chat": lambda line: send("chat_message", pack.pack_string(line["text"])),
            "complete": lambda line: send("tab_complete", pack.pack_string(line["text"])),
            "raw": lambda line: raw_frame(factory.player, bytes.fromhex(line["hex"])),
            "bytes": lambda line: factory.player.transport.write(bytes.fromhex(line["hex"])),
            "plugin": lambda line: send("plugin_message", pack_plugin(pack, line["channel"], bytes.fromhex(line["hex"]))),
            "register": lambda line: send("plugin_message", pack_plugin(pack, "REGISTER", "\0".join(line["channels"]).encode())),
            "pause_keep_alive": lambda line: answering(False),
            "resume_keep_alive": lambda line: answering(True),
            "pause_reading": lambda line: factory.player.transport.pauseProducing(),
            "resume_reading": lambda line: factory.player.transport.resumeProducing(),
            "quit": lambda line: factory.player.close(),
            "kill": lambda line: factory.player.transport.abortConnection(),
        },
        OWN.get("lifetime"),
    )


main()
