'use strict'
// A 1.7.10 player over npm minecraft-protocol: `node player.js '{"port":25565,"name":"Alice"}'`.
//
// Options: host, port, name, version ("1.7.10"), locale (of its Client Settings, "en_GB"), virtualHost (what the handshake says), vanilla (default true: answers as
// the real client does: Client Settings and MC|Brand after every Join Game, Position And Look after every clientbound one),
// status (true: asks for the server list entry only), lifetime (seconds), online: {sessionServer, id, accessToken}: logs in to
// servers in online mode as the account with this UUID; with skipJoin without telling the session server, with from (an
// address of this machine) telling it from there; fml: {…}: a client with mods, see forge.js.
//
// Events: connected {localPort}, login {uuid,name}, join {entityId,dimension,gameMode,levelType}, respawn {dimension}, chat {text,raw},
// completed {matches}: a Tab Complete's answer, keep_alive {id}, tab {name,online}, score/objective…: packet {name,…}, plugin {channel,hex}, kick {phase,text,raw},
// status {data}, end {reason}, error {message}; with fml those in forge.js, and FML|HS and FORGE are no plugin event.
// Commands: chat {text}, complete {text}: the tab key, packet {name,params}, raw {hex}: one frame's id and payload, bytes {hex}: as they are,
// plugin {channel,hex}, register {channels}, pause_keep_alive, resume_keep_alive, pause_reading, resume_reading, quit, kill.

const http = require('http')
const mc = require('minecraft-protocol')
const forge = require('./forge')
const { options, emit, serve, plain, hex } = require('./lines')

const own = options()
const target = { host: own.host || '127.0.0.1', port: own.port, version: own.version || '1.7.10' }

if (own.status) {
  mc.ping({ ...target, fakeHost: own.virtualHost, closeTimeout: 10000 }).then(
    data => { emit('status', { data }); process.exit(0) },
    error => { emit('error', { message: error.message }); process.exit(1) }
  )
} else {
  play()
}

/** What a launcher gives to the client, in place of the library's own sign-in with Microsoft. */
function signedIn (client, options) {
  client.username = own.name
  client.session = { accessToken: own.online.accessToken, selectedProfile: { id: own.online.id, name: own.name } }
  options.accessToken = own.online.accessToken
  options.haveCredentials = !own.online.skipJoin
  options.connect(client)
}

function play () {
  const client = mc.createClient({
    ...target,
    username: own.name,
    auth: own.online ? signedIn : 'offline',
    sessionServer: own.online && own.online.sessionServer,
    agent: own.online && own.online.from && new http.Agent({ localAddress: own.online.from }),
    fakeHost: forge.markedHost(own.virtualHost || target.host, own.fml),
    customPackets: own.fml && forge.extendedPackets(),
    hideErrors: true,
    // Ours below: the library's would give up by itself after 30 s and cannot be paused.
    keepAlive: false
  })
  const vanilla = own.vanilla !== false
  let answering = true
  // Its listeners come first: a client with mods tells its channels before it joins.
  const isForge = own.fml ? forge.player(client, own.fml, emit) : () => false

  client.on('connect', () => emit('connected', { localPort: client.socket.localPort }))
  client.on('success', packet => emit('login', { uuid: packet.uuid, name: packet.username }))
  client.on('login', packet => {
    emit('join', packet)
    // The library sends neither by itself on 1.7.
    if (vanilla) {
      client.write('settings', { locale: own.locale || 'en_GB', viewDistance: 10, chatFlags: 0, chatColors: true, difficulty: 2, showCape: true })
      client.write('custom_payload', { channel: 'MC|Brand', data: Buffer.from(own.fml ? 'fml,forge' : 'vanilla') })
    }
  })
  client.on('respawn', packet => emit('respawn', packet))
  client.on('position', packet => {
    emit('position', { x: packet.x, y: packet.y, z: packet.z })
    if (vanilla) client.write('position_look', { x: packet.x, stance: packet.y - 1.62, y: packet.y, z: packet.z, yaw: packet.yaw, pitch: packet.pitch, onGround: true })
  })
  client.on('chat', packet => emit('chat', { text: plain(packet.message), raw: packet.message }))
  client.on('tab_complete', packet => emit('completed', { matches: packet.matches }))
  client.on('keep_alive', packet => {
    emit('keep_alive', { id: packet.keepAliveId })
    if (answering) client.write('keep_alive', { keepAliveId: packet.keepAliveId })
  })
  client.on('player_info', packet => emit('tab', { name: packet.playerName, online: packet.online }))
  client.on('custom_payload', packet => {
    if (isForge(packet)) return
    // For REGISTER the library's own channel code has replaced the bytes by a list.
    const data = Buffer.isBuffer(packet.data) ? packet.data : Buffer.from([].concat(packet.data).join('\0'))
    emit('plugin', { channel: packet.channel, hex: data.toString('hex') })
  })
  for (const name of ['scoreboard_objective', 'scoreboard_score', 'scoreboard_display_objective', 'scoreboard_team', 'abilities']) {
    client.on(name, packet => emit('packet', { name, params: packet }))
  }
  client.on('disconnect', packet => emit('kick', { phase: 'login', text: plain(packet.reason), raw: packet.reason }))
  client.on('kick_disconnect', packet => emit('kick', { phase: 'play', text: plain(packet.reason), raw: packet.reason }))
  client.on('end', reason => emit('end', { reason }))
  client.on('error', error => emit('error', { message: error.message }))

  serve({
    chat: line => client.write('chat', { message: line.text }),
    complete: line => client.write('tab_complete', { text: line.text }),
    packet: line => client.write(line.name, line.params),
    raw: line => client.writeRaw(hex(line.hex)),
    bytes: line => client.socket.write(hex(line.hex)),
    plugin: line => client.write('custom_payload', { channel: line.channel, data: hex(line.hex) }),
    register: line => client.write('custom_payload', { channel: 'REGISTER', data: Buffer.from(line.channels.join('\0')) }),
    pause_keep_alive: () => { answering = false },
    resume_keep_alive: () => { answering = true },
    pause_reading: () => client.socket.unpipe(client.splitter).pause(),
    resume_reading: () => client.socket.pipe(client.splitter),
    quit: () => client.end('quit'),
    kill: () => client.socket.destroy()
  }, own.lifetime)
}
