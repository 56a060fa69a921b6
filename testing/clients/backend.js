'use strict'
// A 1.7.10 server, offline unless told otherwise, over npm minecraft-protocol's createServer: `node backend.js '{"name":"lobby"}'`.
//
// Options, all changeable later for new connections with the command `set`: name, port (0: a free one), dimension, entityId
// (of the first player, then counting), gameMode, tab (names shown in the tab list), objective (name of a scoreboard),
// keepAliveMs (2000), keepAliveBase (first id; default: the clock, as the real server does), refuse (reason of a login
// disconnect before Login Success), stall ("accept" | "login" | "success": nothing more is sent from there on),
// close ("accept" | "login" | "success": the connection is closed there), garbage (the same places: bytes that are no frame),
// commands (["/help", …]: completed by it), completeAfterMs (0: how long that takes; negative: it never answers),
// once (true: a name that is connected already is refused, as a server in offline mode may do), kickAfterMs with kickReason (counted from the join), lifetime (seconds), fml: {…}: a server with mods, see forge.js (whether there is one at all is not changeable). Not changeable: sessionServer (a URL: online mode).
//
// Events: listening {port}, connection {conn,address}, handshake {conn,host,port,protocol,next}, forwarded {conn,host,address,uuid,properties: [{name,value,signature?}],token?}: what
// the handshake's host carries as BungeeCord writes it (the token is taken out of the properties, as BungeeGuard does), login {conn,name,uuid}, joined {conn,name},
// chat {conn,name,text}, said {conn,text}: what the command chat wrote, keep_alive_sent {conn,id}, keep_alive {conn,id,known}, plugin {conn,channel,hex}, packet {conn,name,params},
// completing {conn,name,text}: a Tab Complete, bungee_cord {conn,name,values}: what a plugin reads on that channel, see bungeecord.js, written {hex},
// already_connected {conn,name}: `once` had to refuse, set {}: the command has been done, raw…, end {conn,name,joined,unanswered,reason}, error {conn?,message}; with fml those in forge.js.
// Commands, to the player `name` or to all: chat {text}, kick {reason}, packet {name: of the packet,player,params}, raw {hex}, bytes {hex},
// plugin {channel,hex}, bungee_cord {player,calls}: what a plugin writes on that channel, write {calls}: only shows the bytes, complete {player,matches}: an
// answer to a Tab Complete, asked for or not, tab {name,online}, pause_keep_alive, resume_keep_alive, drop (close without a word), set {options}, stop_listening, quit.

const mc = require('minecraft-protocol')
const yggdrasil = require('yggdrasil')
const bungeecord = require('./bungeecord')
const forge = require('./forge')
const { options, emit, serve, hex } = require('./lines')

const own = { name: 'backend', dimension: 0, entityId: 1, gameMode: 0, keepAliveMs: 2000, tab: [], commands: [], completeAfterMs: 0, ...options() }
const players = new Map() // conn -> client in the game
const connections = new Map() // conn -> client
let connectionCount = 0
let nextEntity = own.entityId
let keepAlives = true

// The library's server has no option for it, as its client does.
const { server: sessions } = yggdrasil
yggdrasil.server = options => sessions({ ...options, host: own.sessionServer })

const server = mc.createServer({
  host: '127.0.0.1',
  port: own.port || 0,
  version: '1.7.10',
  'online-mode': !!own.sessionServer,
  keepAlive: false, // the library's ids are random and its answers unchecked
  motd: own.name,
  maxPlayers: 1000,
  hideErrors: true,
  customPackets: own.fml && forge.extendedPackets(),
  beforePing: answer => { if (own.fml) answer.modinfo = forge.modInfo(own.fml) },
  errorHandler: (client, error) => {
    emit('error', { conn: client.conn, message: error.message })
    client.socket.destroy()
  }
})
server.on('listening', () => emit('listening', { port: server.socketServer.address().port }))
server.on('error', error => emit('error', { message: error.message }))
server.on('connection', accept)
server.on('login', welcome)

function accept (client) {
  client.conn = ++connectionCount
  connections.set(client.conn, client)
  emit('connection', { conn: client.conn, address: client.socket.remoteAddress })
  client.on('end', reason => {
    connections.delete(client.conn)
    players.delete(client.conn)
    clearInterval(client.keepAliveTimer)
    clearTimeout(client.kickTimer)
    emit('end', { conn: client.conn, name: client.username, joined: !!client.joined, unanswered: client.asked ? client.asked.size : 0, reason })
  })
  client.on('set_protocol', packet => {
    emit('handshake', { conn: client.conn, host: packet.serverHost, port: packet.serverPort, protocol: packet.protocolVersion, next: packet.nextState })
    const forwarded = readForwarded(packet.serverHost)
    if (forwarded) emit('forwarded', { conn: client.conn, ...forwarded })
  })
  if (misbehaves(client, 'accept')) return
  // The library's own handler answers with Login Success: it runs only if this server is not told to do otherwise.
  const [answer] = client.listeners('login_start')
  client.removeAllListeners('login_start')
  client.once('login_start', packet => {
    const isThere = other => other.username && other.username.toLowerCase() === packet.username.toLowerCase()
    const already = own.once && [...connections.values()].some(isThere)
    client.username = packet.username
    emit('login_start', { conn: client.conn, name: packet.username })
    if (already) {
      emit('already_connected', { conn: client.conn, name: packet.username })
      return client.end('refused', JSON.stringify({ text: 'already connected' }))
    }
    if (own.refuse) return client.end('refused', JSON.stringify({ text: own.refuse }))
    if (!misbehaves(client, 'login')) answer(packet)
  })
}

/** What Spigot with `bungeecord: true`, and the BungeeGuard plugin, find in a handshake's host; nothing if it carries nothing. */
function readForwarded (raw) {
  const [host, address, uuid, json, ...more] = raw.split('\0')
  if (uuid === undefined || more.length || (address === 'FML' && uuid === '')) return // the last: the mark of a Forge client
  const properties = json === undefined ? [] : JSON.parse(json)
  const tokens = properties.filter(property => property.name === 'bungeeguard-token')
  if (tokens.length > 1) throw new Error('more than one token')
  return { host, address, uuid, properties: properties.filter(property => property.name !== 'bungeeguard-token'), token: tokens[0]?.value }
}

/** Does at this place of the login what the options say; true: go no further. */
function misbehaves (client, place) {
  if (own.garbage === place) client.socket.write(Buffer.alloc(64, 0xff)) // a length that never ends
  if (own.close === place) client.socket.destroy()
  return own.garbage === place || own.close === place || own.stall === place
}

function welcome (client) {
  emit('login', { conn: client.conn, name: client.username, uuid: client.uuid })
  if (misbehaves(client, 'success')) return
  watch(client)
  if (!own.fml) return join(client)
  forge.server(client, own.fml, own.dimension, (event, fields) => emit(event, { conn: client.conn, ...fields }), () => join(client))
}

function join (client) {
  client.entityId = nextEntity++
  // One byte, whatever the dimension.
  client.write('login', { entityId: client.entityId, gameMode: own.gameMode, dimension: (own.dimension << 24) >> 24, difficulty: 1, maxPlayers: 20, levelType: 'default' })
  client.write('spawn_position', { location: { x: 8, y: 64, z: 8 } })
  client.write('abilities', { flags: 0, flyingSpeed: 0.05, walkingSpeed: 0.1 })
  for (const name of own.tab) client.write('player_info', { playerName: name, online: true, ping: 20 })
  if (own.objective) {
    client.write('scoreboard_objective', { name: own.objective, displayText: own.name, action: 0 })
    client.write('scoreboard_display_objective', { position: 1, name: own.objective })
  }
  client.write('position', { x: 8.5, y: 65.62, z: 8.5, yaw: 0, pitch: 0, onGround: true })
  client.joined = true
  players.set(client.conn, client)
  startKeepAlives(client)
  if (own.kickAfterMs) client.kickTimer = setTimeout(() => kick(client, own.kickReason || 'kicked'), own.kickAfterMs)
  emit('joined', { conn: client.conn, name: client.username, entityId: client.entityId })
}

function watch (client) {
  const said = (event, fields) => emit(event, { conn: client.conn, name: client.username, ...fields })
  client.on('chat', packet => said('chat', { text: packet.message }))
  client.on('settings', packet => said('settings', packet))
  client.on('custom_payload', packet => {
    if (own.fml && packet.channel === 'FML|HS') return // forge.js reports it
    const data = Buffer.isBuffer(packet.data) ? packet.data : Buffer.from([].concat(packet.data).join('\0'))
    said('plugin', { channel: packet.channel, hex: data.toString('hex') })
    if (packet.channel === bungeecord.CHANNEL) listen(client, data)
  })
  client.on('tab_complete', packet => {
    said('completing', { text: packet.text })
    const matches = own.commands.filter(command => command.startsWith(packet.text))
    if (own.completeAfterMs >= 0) setTimeout(() => client.write('tab_complete', { matches }), own.completeAfterMs)
  })
  for (const name of ['position_look', 'position', 'flying', 'client_command', 'use_entity', 'arm_animation', 'held_item_slot']) {
    client.on(name, params => emit('packet', { conn: client.conn, packet: name, params }))
  }
}

/** What a plugin does with what comes on its channel; Bukkit reports what it throws, and goes on. */
function listen (client, data) {
  try {
    emit('bungee_cord', { conn: client.conn, name: client.username, values: bungeecord.read(data) })
  } catch (error) {
    emit('error', { conn: client.conn, message: `BungeeCord: ${error.message}: ${data.toString('hex')}` })
  }
}

function startKeepAlives (client) {
  client.asked = new Map()
  let next = own.keepAliveBase
  const ask = () => {
    if (!keepAlives) return
    // As the real server: the low 32 bits of a millisecond clock.
    const id = next === undefined ? Date.now() | 0 : next++
    client.asked.set(id, Date.now())
    emit('keep_alive_sent', { conn: client.conn, id })
    client.write('keep_alive', { keepAliveId: id })
  }
  client.keepAliveTimer = setInterval(ask, own.keepAliveMs)
  ask()
  client.on('keep_alive', packet => {
    const known = client.asked.delete(packet.keepAliveId)
    emit('keep_alive', { conn: client.conn, id: packet.keepAliveId, known })
  })
}

function kick (client, reason) {
  client.end('kicked', JSON.stringify({ text: reason }))
}

function each (line, act) {
  for (const client of players.values()) {
    if (!line.player || line.player === client.username) act(client)
  }
}

serve({
  chat: line => each(line, client => {
    client.write('chat', { message: JSON.stringify({ text: line.text }) })
    emit('said', { conn: client.conn, text: line.text })
  }),
  kick: line => each(line, client => kick(client, line.reason)),
  packet: line => each(line, client => client.write(line.name, line.params)),
  raw: line => each(line, client => client.writeRaw(hex(line.hex))),
  bytes: line => each(line, client => client.socket.write(hex(line.hex))),
  plugin: line => each(line, client => client.write('custom_payload', { channel: line.channel, data: hex(line.hex) })),
  bungee_cord: line => each(line, client => client.write('custom_payload', { channel: bungeecord.CHANNEL, data: bungeecord.write(line.calls) })),
  write: line => emit('written', { hex: bungeecord.write(line.calls).toString('hex') }),
  complete: line => each(line, client => client.write('tab_complete', { matches: line.matches })),
  register: line => each(line, client => client.write('custom_payload', { channel: 'REGISTER', data: Buffer.from(line.channels.join('\0')) })),
  tab: line => each(line, client => client.write('player_info', { playerName: line.name, online: line.online, ping: 20 })),
  pause_keep_alive: () => { keepAlives = false },
  resume_keep_alive: () => { keepAlives = true },
  drop: () => { for (const client of connections.values()) client.socket.destroy() },
  set: line => {
    Object.assign(own, line.options)
    emit('set', {})
  },
  stop_listening: () => server.socketServer.close(),
  quit: () => process.exit(0)
}, own.lifetime)
