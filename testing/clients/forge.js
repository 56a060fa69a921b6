'use strict'
// Forge's handshake of 1.7.10 (FML 1, protocol 2) for player.js and backend.js, with minecraft-protocol as transport only.
//
// Both sides do what Forge 10.13.4.1614 does (cpw.mods.fml.common.network.handshake: FMLHandshakeClientState,
// FMLHandshakeServerState, FMLHandshakeMessage, NetworkDispatcher; ByteBufUtils.readVarShort for the long plugin messages).
//
// Options of a player, `fml: {…}`: mods ([[id, version], …]), clientOnly (ids of mods that a server need not have), marker
// (default true: the handshake's host ends in \0FML\0), knowsReset (default true: a build ≥ 1209), acks ({2: 2, 3: 3, 4: 4, 5: 5}: what
// is sent for the ack of each phase; null: none), channels (of its mods, told in REGISTER), stall (a phase of the client: it
// answers no more from there on), library (true: npm minecraft-protocol-forge does the handshake: one with empty Mod Id Data).
// Options of a backend, `fml: {…}`: mods, clientNeedsNot (ids of mods that a client need not have), ids ({count, name, first}: so many numbers of
// blocks with such names; or {bytes, seed}: about so many bytes of them; nothing: an empty list), override (Server Hello's dimension;
// default: the backend's dimension), dimensions ([[id, provider], …] told on FORGE; default: the backend's own if it is none of vanilla's),
// reject (a reason: refuses whoever comes), protocol (2; 1: no dimension), channels (of its mods, told in REGISTER),
// stall | close ("hello" | "mods" | "ids" | "ack" | "complete" | "join": in place of what it would say then).
//
// Events of a player: forge_phase {phase}, forge_hello {dimension}, forge_mods {mods}: the server's, forge_ids {bytes,sha256}, forge_reset {},
// forge_dimension {dimension,provider}: told on FORGE. What a real client throws is an `error`, and the end of the connection.
// Events of a backend: forge_phase {conn,phase}, forge_mods {conn,mods}: the client's, forge_ack {conn,phase}, forge_ids {conn,bytes,sha256}: what it sent.

const crypto = require('crypto')

const HANDSHAKE = 'FML|HS'
const [SERVER_HELLO, CLIENT_HELLO, MOD_LIST, MOD_IDS, RESET, ACK] = [0, 1, 2, 3, 0xfe, 0xff]
const CLIENT = ['start', 'hello', 'waiting_server_data', 'waiting_server_complete', 'pending_complete', 'complete', 'done', 'error']
const MARKER = '\0FML\0'

// --- Plugin messages of up to 2,097,050 bytes ------------------------------------------------------------------------

/**
 * For the option `customPackets` of both createClient and createServer: plugin messages whose length is Forge's "extended short",
 * two bytes as ever below 32,768, and one more with the bits from 15 on if bit 15 is set.
 */
function extendedPackets () {
  const types = require('minecraft-protocol/src/datatypes/compiler-minecraft')
  types.Read.forgeBuffer = ['native', (buffer, offset) => {
    const { value, size } = readVarShort(buffer, offset)
    if (offset + size + value > buffer.length) throw new Error(`a plugin message of ${value} bytes in a frame of ${buffer.length}`)
    return { value: buffer.subarray(offset + size, offset + size + value), size: size + value }
  }]
  types.Write.forgeBuffer = ['native', (data, buffer, offset) => {
    offset = writeVarShort(data.length, buffer, offset)
    return offset + data.copy(buffer, offset)
  }]
  types.SizeOf.forgeBuffer = ['native', data => (data.length > 0x7fff ? 3 : 2) + data.length]
  const packet = ['container', [{ name: 'channel', type: 'string' }, { name: 'data', type: 'forgeBuffer' }]]
  const direction = { types: { forgeBuffer: 'native', packet_custom_payload: packet } }
  return { 1.7: { play: { toClient: direction, toServer: direction } } }
}

function readVarShort (buffer, offset) {
  const short = buffer.readUInt16BE(offset)
  if (short < 0x8000) return { value: short, size: 2 }
  return { value: (short & 0x7fff) | (buffer.readUInt8(offset + 2) << 15), size: 3 }
}

function writeVarShort (length, buffer, offset) {
  if (length > 0x1fff9a) throw new Error(`a plugin message of ${length} bytes`)
  if (length <= 0x7fff) return buffer.writeUInt16BE(length, offset)
  offset = buffer.writeUInt16BE((length & 0x7fff) | 0x8000, offset)
  return buffer.writeUInt8(length >> 15, offset)
}

// --- Messages --------------------------------------------------------------------------------------------------------

function varint (value) {
  const bytes = []
  for (value >>>= 0; value > 0x7f; value >>>= 7) bytes.push((value & 0x7f) | 0x80)
  return Buffer.from([...bytes, value])
}

function string (text) {
  const bytes = Buffer.from(text)
  return Buffer.concat([varint(bytes.length), bytes])
}

class Reader {
  constructor (data) { this.data = data; this.at = 0 }

  left () { return this.data.length - this.at }
  i8 () { return this.data.readInt8(this.at++) }
  i32 () { this.at += 4; return this.data.readInt32BE(this.at - 4) }

  varint (most) {
    let value = 0
    for (let index = 0; index < most; index++) {
      const byte = this.data.readUInt8(this.at++)
      value |= (byte & 0x7f) << (7 * index)
      if (byte < 0x80) return value
    }
    throw new Error('VarInt too big')
  }

  string () {
    const length = this.varint(2)
    if (length > this.left()) throw new Error(`a string of ${length} bytes where ${this.left()} are left`)
    this.at += length
    return this.data.toString('utf8', this.at - length, this.at)
  }

  mods () {
    const mods = []
    for (let count = this.varint(2); count > 0; count--) mods.push([this.string(), this.string()])
    return mods
  }

  /** Name and number of blocks and items; what follows (substitutions) is left. */
  ids () {
    const ids = new Map()
    for (let count = this.varint(3); count > 0; count--) ids.set(this.string(), this.varint(3))
    return ids
  }
}

const modList = mods => Buffer.concat([Buffer.from([MOD_LIST]), varint(mods.length), ...mods.flatMap(([id, version]) => [string(id), string(version)])])
const sha256 = data => crypto.createHash('sha256').update(data).digest('hex')

/** Mod Id Data as a server with such options says it: always the same for the same options. */
function modIds (wanted = {}) {
  const entries = []
  const add = (name, id) => entries.push(string(name), varint(id))
  let count = wanted.count || 0
  for (let index = 0; index < count; index++) add(`\u0001${wanted.name || 'minecraft:block'}_${index}`, (wanted.first || 256) + index)
  if (wanted.bytes) {
    // Names as long as mods have them. The numbers depend on the seed, as they do on which mod came first to a world.
    let length = 1 + 3 + 2
    for (; ; count++) {
      const name = string(`\u0001minecraft:some_block_of_a_mod_${String(count).padStart(6, '0')}`)
      const id = varint(256 + ((count * 7 + (wanted.seed || 0)) % 30000))
      if (length + name.length + id.length > wanted.bytes) break
      length += name.length + id.length
      entries.push(name, id)
    }
  }
  return Buffer.concat([Buffer.from([MOD_IDS]), varint(count), ...entries, varint(0), varint(0)])
}

/** Mods of `own` that `others` have not, or in another version: what FMLNetworkHandler.checkModList rejects. */
function rejected (own, excused, others) {
  const there = new Map(others)
  return own.filter(([id, version]) => !excused.includes(id) && there.get(id) !== version).map(([id]) => id)
}

// --- A client --------------------------------------------------------------------------------------------------------

/** The virtual host with the mark that newer builds append to it. */
function markedHost (host, fml) {
  return fml && fml.marker !== false ? host + MARKER : host
}

/**
 * Makes this client one with mods. Returns what looks at each of its plugin messages and says whether it was one of Forge's own.
 * `emit` as in lines.js.
 */
function player (client, fml, emit) {
  if (fml.library) return library(client, fml, emit)
  const mods = fml.mods || []
  const acks = { 2: 2, 3: 3, 4: 4, 5: 5, ...fml.acks }
  let phase = 1
  let stalled = false

  const say = (channel, data) => client.write('custom_payload', { channel, data })
  const go = next => {
    phase = next
    emit('forge_phase', { phase: CLIENT[phase] })
  }
  const acknowledge = () => {
    if (acks[phase] !== null) say(HANDSHAKE, Buffer.from([ACK, acks[phase]]))
  }
  // NetworkManager.exceptionCaught, or rejectHandshake: the client tells itself why and closes.
  const fail = message => {
    go(7)
    emit('error', { message })
    client.end('forge')
  }
  const register = () => say('REGISTER', Buffer.from([HANDSHAKE, 'FML', 'FML|MP', 'FML', 'FORGE', ...(fml.channels || [])].join('\0')))

  // NetworkDispatcher.handleVanilla: a Join Game before any handshake is a server without Forge, and ends the handshake. Only the first one: the
  // dispatcher then counts as connected for ever, so that after a reset no Join Game does it again.
  let connected = false
  client.on('login', () => {
    if (connected) return
    connected = true
    if (phase === 1) {
      register()
      go(6)
    } else if (phase !== 6) {
      fail(`Join Game in ${CLIENT[phase]}`)
    }
  })

  function told (data) {
    const reader = new Reader(data)
    const kind = reader.i8() & 0xff
    if (![SERVER_HELLO, CLIENT_HELLO, MOD_LIST, MOD_IDS, RESET, ACK].includes(kind) || (kind === RESET && fml.knowsReset === false)) {
      throw new Error(`Undefined message for discriminator ${kind} in channel ${HANDSHAKE}`)
    }
    const expect = wanted => {
      if (kind !== wanted) throw new Error(`ClassCastException: message ${kind} in ${CLIENT[phase]}`)
    }
    switch (phase) {
      case 1:
        expect(SERVER_HELLO)
        emit('forge_hello', { dimension: reader.i8() > 1 ? reader.i32() : 0 })
        register()
        say(HANDSHAKE, Buffer.from([CLIENT_HELLO, 2]))
        say(HANDSHAKE, modList(mods))
        return go(2)
      case 2: {
        expect(MOD_LIST)
        const theirs = reader.mods()
        emit('forge_mods', { mods: theirs })
        const bad = rejected(mods, fml.clientOnly || [], theirs)
        if (bad.length) return fail(`Mod rejections [${bad}]`)
        acknowledge()
        return go(3)
      }
      case 3: {
        expect(MOD_IDS)
        const missing = [...reader.ids().keys()].filter(name => !known(name, mods))
        emit('forge_ids', { bytes: data.length, sha256: sha256(data) })
        if (missing.length) return fail('Fatally missing blocks and items')
        acknowledge()
        return go(4)
      }
      case 4: // whatever it is
        acknowledge()
        return go(5)
      case 5:
        acknowledge()
        connected = true
        return go(6)
      case 6:
        if (kind === RESET) {
          emit('forge_reset', {})
          go(1)
        }
    }
  }

  return packet => {
    if (packet.channel === 'FORGE' && packet.data[0] === 1) {
      emit('forge_dimension', { dimension: packet.data.readInt32BE(1), provider: packet.data.readInt32BE(5) })
      return true
    }
    if (packet.channel !== HANDSHAKE) return false
    stalled = stalled || fml.stall === CLIENT[phase]
    if (phase === 7 || stalled) return true
    try { told(packet.data) } catch (error) { fail(error.message) }
    return true
  }
}

/** Whether a client with these mods has the block or item of this name. */
function known (name, mods) {
  const [domain] = name.slice(1).split(':')
  return domain === 'minecraft' || mods.some(([id]) => id === domain)
}

/** npm minecraft-protocol-forge, which acknowledges in a way of its own (2 at once, 3, 0, 5). */
function library (client, fml, emit) {
  // It prints what it reads.
  console.log = console.error
  const { forgeHandshake } = require('minecraft-protocol-forge')
  client.on('forgeMods', mods => emit('forge_mods', { mods: mods.map(mod => [mod.modid, mod.version]) }))
  forgeHandshake(client, { forgeMods: (fml.mods || []).map(([modid, version]) => ({ modid, version })) })
  client.on('login', () => emit('forge_phase', { phase: 'done' }))
  return packet => packet.channel === HANDSHAKE
}

// --- A server --------------------------------------------------------------------------------------------------------

/** What Forge adds to the server list's answer (FMLNetworkHandler.enhanceStatusQuery). */
const modInfo = fml => ({ type: 'FML', modList: (fml.mods || []).map(([modid, version]) => ({ modid, version })) })

/**
 * The handshake with a client that has been sent Login Success. `join()` sends Join Game and the rest; `emit(event, fields)`
 * names the connection by itself; `dimension` is where the player will be.
 */
function server (client, fml, dimension, emit, join) {
  const mods = fml.mods || []
  const say = (channel, data) => client.write('custom_payload', { channel, data })
  let phase = 'start'
  /** Goes there, unless the options say that it is where this server stops. */
  const reach = (next, act) => {
    if (phase === 'stalled') return
    if (fml.stall === next || fml.close === next) {
      phase = 'stalled'
      emit('forge_phase', { phase: `${fml.close === next ? 'closed' : 'stalled'}_${next}` })
      if (fml.close === next) client.socket.destroy()
      return
    }
    phase = next
    emit('forge_phase', { phase })
    act()
  }
  const reject = reason => {
    phase = 'stalled'
    emit('forge_phase', { phase: 'rejected' })
    client.end('rejected', JSON.stringify({ text: reason }))
  }
  const acknowledge = number => say(HANDSHAKE, Buffer.from([ACK, number]))

  function told (data) {
    const reader = new Reader(data)
    const kind = reader.i8() & 0xff
    if (kind === ACK) emit('forge_ack', { phase: reader.i8() })
    if (phase === 'hello' && kind === MOD_LIST) {
      const theirs = reader.mods()
      emit('forge_mods', { mods: theirs })
      const bad = rejected(mods, fml.clientNeedsNot || [], theirs)
      if (fml.reject || bad.length) return reject(fml.reject || `Mod rejections [${bad}]`)
      reach('mods', () => say(HANDSHAKE, modList(mods)))
    } else if (phase === 'hello') {
      if (kind !== CLIENT_HELLO) throw new Error(`ClassCastException: message ${kind} in HELLO`)
    } else if (phase === 'mods') {
      reach('ids', () => {
        const ids = modIds(fml.ids)
        emit('forge_ids', { bytes: ids.length, sha256: sha256(ids) })
        say(HANDSHAKE, ids)
      })
      reach('ack', () => {
        acknowledge(2)
        const own = dimension < -1 || dimension > 1 ? [[dimension, 0]] : []
        for (const [id, provider] of fml.dimensions || own) {
          const message = Buffer.from([1, 0, 0, 0, 0, 0, 0, 0, 0])
          message.writeInt32BE(id, 1)
          message.writeInt32BE(provider, 5)
          say('FORGE', message)
        }
      })
    } else if (phase === 'ack') { // any message will do
      reach('complete', () => acknowledge(3))
      reach('join', join)
    }
  }

  client.on('custom_payload', packet => {
    if (packet.channel !== HANDSHAKE) return
    try { told(packet.data) } catch (error) {
      emit('error', { message: error.message })
      client.socket.destroy()
    }
  })
  reach('hello', () => {
    say('REGISTER', Buffer.from([HANDSHAKE, 'FML', 'FML|MP', 'FML', 'FORGE', ...(fml.channels || [])].join('\0')))
    const hello = Buffer.from([SERVER_HELLO, fml.protocol || 2, 0, 0, 0, 0])
    hello.writeInt32BE(fml.override === undefined ? dimension : fml.override, 2)
    say(HANDSHAKE, fml.protocol === 1 ? hello.subarray(0, 2) : hello)
  })
}

module.exports = { extendedPackets, markedHost, modInfo, player, server }
